// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/core_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "schedules/nest.h"
#include "schedules/program/affine.h"
#include "schedules/program/global_names.h"
#include "schedules/program/simplify.h"

namespace tw::schedules {
namespace {

tl::unexpected<Error> illegal_core_tile(const std::string& why, const Loop& loop) {
  return fail(ErrorCode::Invalid,
              fmt::format("[tensorize] {}\n{}", why, to_string(Block{Stmt{loop}}, 1)));
}

int64_t extent(const Loop& loop) { return *dsl::as_int(loop.end); }

/// A perfect nest: loops each of which contains only the next one, and the assignment in the
/// innermost loop. `assign` is null if the innermost loop contains anything but one assignment.
struct PerfectNest {
  std::vector<const Loop*> loops;
  const Assign* assign = nullptr;
};
PerfectNest perfect_nest(const Loop& outermost) {
  PerfectNest nest;
  for (const Loop* loop = &outermost; loop;) {
    nest.loops.push_back(loop);
    const Stmt* inner = loop->body->size() == 1 ? &loop->body->front() : nullptr;
    nest.assign = inner ? inner->as<Assign>() : nullptr;
    loop = inner ? inner->as<Loop>() : nullptr;
  }
  return nest;
}

/// True for a Tensor loop that runs from 0 to a literal of at most `most`.
bool is_counted(const Loop& loop, int64_t most) {
  return loop.kind == LoopKind::Tensor && dsl::is_int(loop.begin, 0) &&
         dsl::as_int(loop.end).value_or(most + 1) <= most;
}

/// Returns the read of a factor that is an element of memory, possibly widened to the type of the
/// sum; null for any other factor.
const dsl::Read* factor_read(const Expr& factor, const TensorTile& tile) {
  const dsl::Read* read = unwidened(factor).as<dsl::Read>();
  return read && takes(tile, read->type) && factor.type() == tile.accumulator ? read : nullptr;
}

/// Returns the coefficients of the tile's loops (row, column, group, term) in the address of an
/// element; nullopt if the address is not affine in them.
std::optional<std::array<int64_t, 4>> coefficients(const CoreNest& nest, const Buffer& buffer,
                                                   const std::vector<Expr>& indices,
                                                   const Bounds& bounds) {
  const Affine address = to_affine(simplify(linear_index(buffer, indices), bounds));
  const std::array<const Loop*, 4> loops = {nest.row, nest.column, nest.group, nest.term};
  std::array<int64_t, 4> result;
  for (size_t i = 0; i < loops.size(); ++i) {
    result[i] = address.coefficient(dsl::var(loops[i]->variable));
    for (const Affine::Term& term : address.terms)
      if (!term.atom.as<dsl::Var>() && dsl::uses_var(term.atom, loops[i]->variable))
        return std::nullopt;
  }
  return result;
}

class CoreTileChecker {
 public:
  explicit CoreTileChecker(const Program& program) : buffers_(global_buffers(program)) {}

  Status check_phase(const Phase& phase) {
    push_axes(phase, bounds_);
    return check(*phase.body);
  }

 private:
  Status check(const Block& body) {
    for (const Stmt& stmt : body) TW_RETURN_IF_ERROR(check(stmt));
    return {};
  }

  Status check(const Stmt& stmt) {
    if (const Allocate* allocate = stmt.as<Allocate>()) {
      buffers_[allocate->buffer.name] = &allocate->buffer;
      loops_around_[allocate->buffer.name] = rolled_.size();
    }
    const Loop* loop = stmt.as<Loop>();
    if (loop && loop->tile && loop->tile->is_of_core()) return check_tile(*loop);
    const Block* body = body_of(stmt);
    if (!body) return {};
    const auto mark = bounds_.mark();
    const bool is_rolled = loop && loop->kind != LoopKind::Unrolled;
    if (loop) bounds_.push_loop(loop->variable, loop->begin, loop->end);
    if (is_rolled) rolled_.push_back(loop->variable);
    const Status status = check(*body);
    if (is_rolled) rolled_.pop_back();
    bounds_.restore(mark);
    return status;
  }

  Status check_tile(const Loop& loop) {
    TW_TRY(const CoreNest nest, core_nest(loop));
    const std::string& name = nest.sum->buffer;
    const Buffer& sums = *buffers_.at(name);
    const auto around = loops_around_.find(name);
    if (around == loops_around_.end())
      return illegal_core_tile(
          fmt::format("'{}' takes the sums of {}, which stay in registers of a task: cache_write",
                      name, nest.tile->name),
          loop);
    // Each shape of a factor needs a tile register of its own.
    const Shape shape = {nest.rows(), nest.columns(), nest.groups()};
    if (shapes_.try_emplace(&sums, shape).first->second != shape)
      return illegal_core_tile(
          fmt::format("the tiles that sum in '{}' have one shape, and these are shorter than "
                      "others, by the rest of a loop: let the sizes of tiles divide the extents",
                      name),
          loop);
    const int64_t tiles = sums.elements() / (nest.rows() * nest.columns());
    if (tiles * nest.rows() * nest.columns() != sums.elements() || tiles > most_core_sums)
      return illegal_core_tile(
          fmt::format("'{}' has {} sums, which are not 1 to {} tiles of {} rows and {} columns",
                      name, sums.elements(), most_core_sums, nest.rows(), nest.columns()),
          loop);
    for (const Expr& index : nest.sum->indices)
      for (size_t i = around->second; i < rolled_.size(); ++i)
        if (dsl::uses_var(index, rolled_[i]))
          return illegal_core_tile(
              fmt::format("the sums of {} are registers, but the loop over '{}' around it, which "
                          "indexes them, is not unrolled",
                          nest.tile->name, rolled_[i]),
              loop);
    const auto mark = bounds_.mark();
    for (const Loop* l : {nest.row, nest.column, nest.group, nest.term})
      bounds_.push_loop(l->variable, l->begin, l->end);
    const auto strides = core_strides(
        nest, {*buffers_.at(nest.by_row->tensor), *buffers_.at(nest.by_column->tensor), sums},
        bounds_);
    bounds_.restore(mark);
    if (!strides) return tl::unexpected(strides.error());
    // Tiles must begin at multiples of their size. They do not if a tile is the rest of an axis,
    // with fewer rows than the buffer has for a tile.
    const Affine first = linear_address(sums.extents, first_of_tile(nest, nest.sum->indices));
    const int64_t elements = nest.rows() * nest.columns();
    const bool follow_each_other = first.constant % elements == 0 &&
                                   std::ranges::all_of(first.terms, [&](const Affine::Term& term) {
                                     return term.coefficient % elements == 0;
                                   });
    if (!follow_each_other)
      return illegal_core_tile(
          fmt::format("the tiles of {} are to follow each other in '{}', {} elements each",
                      nest.tile->name, name, elements),
          loop);
    if (strides->sums == nest.columns()) return {};
    return illegal_core_tile(
        fmt::format("the sums of {} are to be rows of '{}' that follow each other, and lie {} "
                    "elements apart",
                    nest.tile->name, name, strides->sums),
        loop);
  }

  Bounds bounds_;
  BuffersByName buffers_;                       ///< all buffers of the program
  std::vector<std::string> rolled_;             ///< variables of loops around, except unrolled ones
  using Shape = std::array<int64_t, 3>;         ///< rows, columns and groups of a tile
  std::map<const Buffer*, Shape> shapes_;       ///< shape of the tiles that sum in a buffer
  std::map<std::string, size_t> loops_around_;  ///< by buffer: how many of rolled_ are around it
};

}  // namespace

int64_t group_terms(const TensorTile& tile) { return size_bytes(Int32) / size_bytes(tile.operand); }

bool has_core_tile(const TensorTile& tile, const Target& target) {
  return tile.is_of_core() && std::ranges::all_of(tile.features, [&](std::string_view feature) {
           return target.has(feature);
         });
}

bool has_core_tiles(const Target& target) {
  return std::ranges::any_of(tensor_tiles(),
                             [&](const TensorTile& tile) { return has_core_tile(tile, target); });
}

const TensorTile* core_tile_for(const Target& target, const dsl::Stage& stage) {
  if (stage.combine != dsl::Combine::Sum) return nullptr;
  const auto found = std::ranges::find_if(tensor_tiles(), [&](const TensorTile& tile) {
    return has_core_tile(tile, target) && sums_products_of(stage, tile);
  });
  return found == tensor_tiles().end() ? nullptr : &*found;
}

double dots_per_cycle(const TensorTile& tile, const Core& core) {
  return tile.operand == Int8 ? core.byte_tile_dots_per_cycle : core.bf16_tile_dots_per_cycle;
}

double speed_of(const TensorTile& tile, const Core& core) {
  return static_cast<double>(group_terms(tile)) * dots_per_cycle(tile, core) / core.fma_per_cycle;
}

int64_t CoreNest::rows() const { return extent(*row); }
int64_t CoreNest::columns() const { return extent(*column); }
int64_t CoreNest::groups() const { return extent(*group); }

Result<CoreNest> core_nest(const Loop& loop) {
  const TensorTile& tile = *loop.tile;
  const auto [loops, sum] = perfect_nest(loop);
  const bool is_whole =
      loops.size() == 4 &&
      std::all_of(loops.begin(), loops.end() - 1,
                  [](const Loop* l) { return is_counted(*l, most_core_extent); }) &&
      is_counted(*loops[3], group_terms(tile)) && extent(*loops[3]) == group_terms(tile);
  if (!is_whole)
    return illegal_core_tile(
        fmt::format("{} is four loops with nothing else in them, of up to {} rows, columns and "
                    "groups, and of {} terms: give the sums an accumulator by cache_write, and let "
                    "the sizes of tiles divide the extents",
                    tile.name, most_core_extent, group_terms(tile)),
        loop);
  const dsl::Binary* product = sum ? sum->value.as<dsl::Binary>() : nullptr;
  if (!product || sum->combine != Combine::Sum || product->op != dsl::BinaryOp::Mul)
    return illegal_core_tile(
        fmt::format("{} is one sum of products, without a condition", tile.name), loop);
  const dsl::Read* a = factor_read(product->a, tile);
  const dsl::Read* b = factor_read(product->b, tile);
  if (!a || !b || a->tensor == sum->buffer || b->tensor == sum->buffer)
    return illegal_core_tile(
        fmt::format("the factors of {} are elements of memory, of {} summed as {}", tile.name,
                    tile.operand == Int8 ? "i8 or u8" : tw::to_string(tile.operand),
                    tw::to_string(tile.accumulator)),
        loop);
  const auto uses = [&nest_loops = loops](const std::vector<Expr>& indices, size_t i) {
    return dsl::uses_var(indices, nest_loops[i]->variable);
  };
  if (uses(a->indices, 1)) std::swap(a, b);
  if (uses(a->indices, 1) || uses(b->indices, 0) || uses(sum->indices, 2) || uses(sum->indices, 3))
    return illegal_core_tile(
        fmt::format("one factor of {} depends on '{}' and the other on '{}', neither on both, and "
                    "the sums on these two alone",
                    tile.name, loops[0]->variable, loops[1]->variable),
        loop);
  return CoreNest{&tile, loops[0], loops[1], loops[2], loops[3], sum, a, b};
}

Result<CoreStrides> core_strides(const CoreNest& nest, const CoreBuffers& buffers,
                                 const Bounds& bounds) {
  const int64_t terms = group_terms(*nest.tile);
  const auto a = coefficients(nest, buffers.by_row, nest.by_row->indices, bounds);
  const auto b = coefficients(nest, buffers.by_column, nest.by_column->indices, bounds);
  const auto sum = coefficients(nest, buffers.sums, nest.sum->indices, bounds);
  const auto wrong = [&](const Buffer& buffer, std::string_view what) {
    return illegal_core_tile(
        fmt::format("{} reads rows of neighbours: '{}' is to have {} side by side, and all rows "
                    "at the same distance",
                    nest.tile->name, buffer.name, what),
        *nest.row);
  };
  const auto is_distance = [](int64_t stride) { return stride > 0; };
  if (!a || !is_distance((*a)[0]) || (*a)[2] != terms || (*a)[3] != 1)
    return wrong(buffers.by_row, "the terms of a sum");
  if (!b || !is_distance((*b)[2]) || (*b)[1] != terms || (*b)[3] != 1)
    return wrong(buffers.by_column, "groups of terms for each column");
  if (!sum || !is_distance((*sum)[0]) || (*sum)[1] != 1) return wrong(buffers.sums, "the columns");
  return CoreStrides{(*a)[0], (*b)[2], (*sum)[0]};
}

std::vector<Expr> first_of_tile(const CoreNest& nest, const std::vector<Expr>& indices) {
  return dsl::substitute(indices, {{nest.row->variable, Expr(0)},
                                   {nest.column->variable, Expr(0)},
                                   {nest.group->variable, Expr(0)},
                                   {nest.term->variable, Expr(0)}});
}

const std::string* sums_of_tiles(const Stmt& stmt, const Target& target) {
  const Loop* loop = stmt.as<Loop>();
  if (loop && loop->tile && has_core_tile(*loop->tile, target)) {
    const Assign* sum = perfect_nest(*loop).assign;
    return sum ? &sum->buffer : nullptr;
  }
  const If* branch = stmt.as<If>();
  if ((!loop || (loop->kind != LoopKind::Serial && loop->kind != LoopKind::Unrolled)) && !branch)
    return nullptr;
  const std::string* sums = nullptr;
  for (const Stmt& inner : loop ? *loop->body : *branch->body) {
    const std::string* of_inner = sums_of_tiles(inner, target);
    if (!of_inner || (sums && *sums != *of_inner)) return nullptr;
    sums = of_inner;
  }
  return sums;
}

bool sets_to_zero(const Stmt& stmt, const Buffer& buffer) {
  const Loop* outermost = stmt.as<Loop>();
  if (!outermost) return false;
  const auto [loops, assign] = perfect_nest(*outermost);
  if (!assign || assign->buffer != buffer.name || assign->combine != Combine::None ||
      assign->guard || !dsl::is_zero_bytes(assign->value) || assign->indices.size() != loops.size())
    return false;
  for (size_t i = 0; i < loops.size(); ++i) {
    const dsl::Var* index = assign->indices[i].as<dsl::Var>();
    if (!index || index->name != loops[i]->variable || !dsl::is_int(loops[i]->begin, 0) ||
        !dsl::is_int(loops[i]->end, buffer.extents[i]))
      return false;
  }
  return true;
}

Status check_core_tiles(const Program& program, const Phase& phase) {
  bool has_tiles = false;
  for_each(*phase.body, [&](const Stmt& stmt) {
    const Loop* loop = stmt.as<Loop>();
    has_tiles |= loop && loop->tile && loop->tile->is_of_core();
  });
  return has_tiles ? CoreTileChecker(program).check_phase(phase) : Status{};
}

}  // namespace tw::schedules
