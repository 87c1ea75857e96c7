// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/tensor_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "schedules/program/affine.h"
#include "schedules/program/legality.h"

namespace tw::schedules {
namespace {

// Halide's back end uses the tiles of AMX only for processors with all features of Sapphire Rapids.
constexpr std::string_view amx[] = {"amx_bf16", "amx_int8", "amx_tile", "avx512_fp16", "avx_vnni"};

// A tf32 has the exponent of an f32 and 10 bits after the point. An f32 that is split into the sum
// of two tf32, big and small, loses at most its last three bits. The sum big*big + big*small +
// small*big of three products is about as exact as a product of f32 (arXiv 2203.03341).
constexpr TensorTile rows[] = {
    // name               operand   accumulator  k  mma  sm  input error
    {"mma_m16n8k8_tf32", Float32, Float32, 8, 1, 80, 0x1p-11},
    {"mma_m16n8k8_3xtf32", Float32, Float32, 8, 3, 80, 0x1p-21},
    {"mma_m16n8k16_f16", Float16, Float32, 16, 1, 80, 0},
    {"mma_m16n8k16_bf16", BFloat16, Float32, 16, 1, 80, 0},
    {"mma_m16n8k32_s8", Int8, Int32, 32, 1, 80, 0},
    // The loops determine the number of columns of a warpgroup's tile. The instruction truncates an
    // f32 to a tf32.
    {"wgmma_m64k8_tf32", Float32, Float32, 8, 1, 90, 0x1p-10, true},
    {"wgmma_m64k16_f16", Float16, Float32, 16, 1, 90, 0, true},
    {"wgmma_m64k16_bf16", BFloat16, Float32, 16, 1, 90, 0, true},
    {"wgmma_m64k32_s8", Int8, Int32, 32, 1, 90, 0, true},
    // Factors of i8 tiles may also be u8. The instruction of bf16 treats subnormal factors as 0.
    {"amx_m16n16k64_i8", Int8, Int32, 64, 1, 0, 0, false, amx},
    {"amx_m16n16k32_bf16", BFloat16, Float32, 32, 1, 0, 0, false, amx},
};

tl::unexpected<Error> illegal_tile(const std::string& why, const Stmt& stmt) {
  return fail(ErrorCode::Invalid,
              fmt::format("[tensorize] {}\n{}", why, to_string(Block{stmt}, 1)));
}

const Loop* only_loop(const Block& body) {
  return body.size() == 1 ? body.front().as<Loop>() : nullptr;
}

bool runs_to(const Loop* loop, int64_t extent) {
  return loop && loop->kind == LoopKind::Tensor && dsl::is_int(loop->begin, 0) &&
         dsl::is_int(loop->end, extent);
}

int64_t iterations(const Loop& loop) { return *dsl::as_int(loop.end); }

/// Returns the loops over columns, outermost first.
std::vector<const Loop*> column_loops(const TensorNest& nest) {
  if (!nest.columns) return {nest.column};
  if (!nest.column_groups) return {nest.columns, nest.column};
  return {nest.column_groups, nest.columns, nest.column};
}

bool is_variable_of(const Expr& index, const Loop& loop) {
  const dsl::Var* v = index.as<dsl::Var>();
  return v && v->name == loop.variable;
}

/// Returns the read of a factor that is an element of memory, possibly widened to the type of the
/// sum; null for any other factor.
const dsl::Read* as_factor(const Expr& factor, const TensorTile& tile) {
  const dsl::Cast* cast = factor.as<dsl::Cast>();
  const dsl::Read* read = (cast ? cast->a : factor).as<dsl::Read>();
  return read && read->type == tile.operand && factor.type() == tile.accumulator ? read : nullptr;
}

std::string no_such_columns(const TensorTile& tile, const Loop& columns) {
  return fmt::format("{} has 16 columns, 8 for each turn of '{}', up to {}{}, not {} turns",
                     tile.name, columns.variable, most_warpgroup_columns,
                     tile.operand == Int8 ? ", beyond 32 by sixteens" : "",
                     dsl::to_string(columns.end));
}

class TileChecker {
 public:
  explicit TileChecker(const Limits& limits) : limits_(limits) {}

  Status check(const Block& body) {
    for (const Stmt& stmt : body) TW_RETURN_IF_ERROR(check(stmt));
    return {};
  }

 private:
  Status check(const Stmt& stmt) {
    return schedules::visit(
        stmt, [&](const Loop& loop) { return check_loop(loop, stmt); },
        [&](const If& branch) { return inside({branch.condition}, *branch.body); },
        [&](const Allocate& allocate) {
          buffers_[allocate.buffer.name] = &allocate.buffer;
          return check(*allocate.body);
        },
        always<Assign, Barrier, Commit, Wait, PrefetchLines>(Status{}));
  }

  Status check_loop(const Loop& loop, const Stmt& stmt) {
    const auto end = dsl::as_int(loop.end);
    last_[loop.variable] = dsl::is_int(loop.begin, 0) && end ? *end - 1 : unknown;
    if (loop.kind == LoopKind::Thread && !threads_) {
      const ThreadNest nest = thread_nest(loop);
      threads_ = &nest;
      for (const Loop* l : nest.loops) last_[l->variable] = iterations(*l) - 1;
      written_ = written_in(*nest.loops.back()->body);
      const Status status = check(*nest.loops.back()->body);
      threads_ = nullptr;
      return status;
    }
    if (loop.kind == LoopKind::Tensor) return check_tile(loop, stmt);
    const bool is_rolled = threads_ && loop.kind == LoopKind::Serial;
    if (is_rolled) rolled_.push_back(loop.variable);
    const Status status = inside({loop.begin, loop.end}, *loop.body);
    if (is_rolled) rolled_.pop_back();
    return status;
  }

  /// Checks the body of a loop or condition. `decide` are the bounds of the loop or the condition.
  /// If the body has a tile, all lanes of a warp must find the same values of these expressions.
  Status inside(const std::vector<Expr>& decide, const Block& body) {
    const size_t before = decide_.size();
    decide_.insert(decide_.end(), decide.begin(), decide.end());
    const Status status = check(body);
    decide_.resize(before);
    return status;
  }

  Status check_tile(const Loop& loop, const Stmt& stmt) {
    if (!loop.tile) return illegal_tile("a loop of a tensor tile stands outside of one", stmt);
    const TensorTile& tile = *loop.tile;
    if (tile.is_of_core())
      return threads_ || limits_.is_gpu
                 ? illegal_tile(fmt::format("{} is computed by one thread of a CPU", tile.name),
                                stmt)
                 : Status{};
    if (limits_.gpu_architecture > 0 &&
        !has_tile(tile, limits_.gpu_architecture, limits_.architecture_specific))
      return illegal_tile(
          fmt::format("{} is of sm_{}, the target is sm_{}{}", tile.name,
                      tile.is_of_warpgroup ? fmt::format("{}a alone", tile.least_architecture)
                                           : fmt::format("{} and newer", tile.least_architecture),
                      limits_.gpu_architecture, limits_.architecture_specific ? "a" : ""),
          stmt);
    if (!threads_)
      return illegal_tile(fmt::format("{} is computed by threads: bind loops around it", tile.name),
                          stmt);
    TW_TRY(const TensorNest nest, tensor_nest(loop, *threads_));
    for (const Expr& expr : decide_)
      for (const std::string& lane : {nest.lane_row, nest.lane_column, nest.warp})
        if (dsl::uses_var(expr, lane) || reads_own(expr))
          return illegal_tile(
              fmt::format("{} is computed by all lanes of a warp{}, but {} decides which",
                          tile.name, nest.warp.empty() ? "" : "group", dsl::to_string(expr)),
              stmt);
    if (!is_own(nest.sum->buffer))
      return illegal_tile(
          fmt::format("'{}' takes the sums of {}, which are a thread's own: cache_write",
                      nest.sum->buffer, tile.name),
          stmt);
    for (const dsl::Read* factor : {nest.by_row, nest.by_column})
      TW_RETURN_IF_ERROR(check_factor(tile, *factor, stmt));
    return tile.is_of_warpgroup ? check_warpgroup(nest, stmt) : Status{};
  }

  /// Checks the layouts that a warpgroup's instruction requires of its factors in shared memory and
  /// of a thread's accumulators.
  Status check_warpgroup(const TensorNest& nest, const Stmt& stmt) const {
    const Buffer& sums = *buffers_.at(nest.sum->buffer);
    const std::vector<Expr>& at = nest.sum->indices;
    std::vector<const Loop*> inner = column_loops(nest);
    inner.insert(inner.begin(), nest.part);
    bool is_dense = at.size() >= inner.size();
    for (size_t i = 0; is_dense && i < at.size(); ++i) {
      const size_t left = at.size() - i;
      const Loop* loop = left <= inner.size() ? inner[inner.size() - left] : nullptr;
      is_dense = loop ? is_variable_of(at[i], *loop) && sums.extents[i] == iterations(*loop)
                      : std::none_of(inner.begin(), inner.end(), [&](const Loop* l) {
                          return dsl::uses_var(at[i], l->variable);
                        });
    }
    if (!is_dense)
      return illegal_tile(
          fmt::format("a thread's sums of {} are '{}', '{}' and '{}' of '{}', innermost",
                      nest.tile->name, nest.part->variable, nest.columns->variable,
                      nest.column->variable, sums.name),
          stmt);
    // Registers have no addresses, so a loop that indexes them must be unrolled.
    for (const std::string& variable : rolled_)
      if (dsl::uses_var(at, variable))
        return illegal_tile(
            fmt::format("the sums of {} are registers, but the loop over '{}' around it, "
                        "which indexes them, is not unrolled",
                        nest.tile->name, variable),
            stmt);
    // Each loop, and the number of rows (or columns) between its successive iterations.
    TW_RETURN_IF_ERROR(check_rows(
        nest, *nest.by_row,
        {{nest.warp, tile_rows}, {nest.part->variable, lane_rows}, {nest.lane_row, 1}}, stmt));
    std::vector<RowLoop> columns = {{nest.columns->variable, tile_columns},
                                    {nest.lane_column, tile_part},
                                    {nest.column->variable, 1}};
    if (nest.column_groups) columns.push_back({nest.column_groups->variable, most_mn_neighbours});
    return check_rows(nest, *nest.by_column, columns, stmt);
  }

  struct RowLoop {
    std::string variable;
    int64_t rows;
  };

  /// Checks the position of a factor of a warpgroup's tile in shared memory, for the two layouts
  /// that tensor_tiles.h describes. K-major: lines as long as the swizzle follow each other, the
  /// first of them at a multiple of the swizzle's period, and the terms of a tile are part of a
  /// line. MN-major: a line holds at most 64 neighbours of one term, a tile has a line for each
  /// term, and groups of columns have a constant stride. `loops` are the loops over rows, or over
  /// columns.
  Status check_rows(const TensorNest& nest, const dsl::Read& factor,
                    const std::vector<RowLoop>& loops, const Stmt& stmt) const {
    const auto found = buffers_.find(factor.tensor);
    const Buffer* b = found == buffers_.end() ? nullptr : found->second;
    const auto wrong = [&](const std::string& what) {
      return illegal_tile(
          fmt::format("{} reads '{}' from shared memory: {}", nest.tile->name, factor.tensor, what),
          stmt);
    };
    if (!b || b->scope != Scope::Shared) return wrong("cache_operand outside of the threads");
    if (b->swizzle == 0) return wrong("swizzle it by the bytes of a row");
    const int64_t row = b->swizzle / size_bytes(b->type), depth = nest.tile->depth;
    const int64_t period = b->swizzle_period() / size_bytes(b->type);
    Affine at = linear_address(b->extents, factor.indices);
    const bool is_mn_major = at.coefficient(dsl::var(nest.depth->variable)) == row;
    if (is_mn_major && !has_mn_major(*nest.tile, row))
      return wrong(
          fmt::format("neighbours are terms of '{}', but for 16 bits", nest.depth->variable));
    const auto takes = [&](const std::string& variable, int64_t step) {
      const int64_t coefficient = at.coefficient(dsl::var(variable));
      at.add(dsl::var(variable), -coefficient);
      return coefficient == step;
    };
    bool is_plain = takes(nest.depth->variable, is_mn_major ? row : 1);
    for (const RowLoop& loop : loops) {
      if (is_mn_major && loop.rows == most_mn_neighbours) {
        const int64_t stride = at.coefficient(dsl::var(loop.variable));
        is_plain = stride > 0 && stride % period == 0 && takes(loop.variable, stride) && is_plain;
      } else {
        is_plain = takes(loop.variable, is_mn_major ? loop.rows : loop.rows * row) && is_plain;
      }
    }
    // In MN-major, a line has all rows or columns of the tile, or the columns of one group.
    const bool is_by_row = &factor == nest.by_row;
    const int64_t neighbours =
        is_by_row ? warpgroup_rows : iterations(*nest.columns) * tile_columns;
    if (is_mn_major && neighbours != row) is_plain = false;
    const int64_t wanted = has_mn_major(*nest.tile, neighbours) ? neighbours : most_mn_neighbours;
    if (!is_plain && is_mn_major)
      return wrong(
          fmt::format("rows of {} neighbours for each '{}', one after the other, swizzled "
                      "by their {} bytes",
                      wanted, nest.depth->variable, wanted * size_bytes(b->type)));
    if (!is_plain)
      return wrong(fmt::format("rows of {} elements, one after the other, with '{}' innermost", row,
                               nest.depth->variable));
    // The tile begins at a multiple of the period. In K-major it may begin at a later term of the
    // same lines, if they have all its terms.
    int64_t terms = at.constant % period;
    bool is_aligned = at.constant >= 0 && terms % depth == 0 && !(is_mn_major && terms > 0);
    std::vector<const Loop*> own = column_loops(nest);
    own.insert(own.end(), {nest.part, nest.depth});
    for (const Affine::Term& term : at.terms) {
      for (const Loop* l : own) is_aligned = is_aligned && !dsl::uses_var(term.atom, l->variable);
      for (const std::string& lane : {nest.warp, nest.lane_row, nest.lane_column})
        is_aligned = is_aligned && !dsl::uses_var(term.atom, lane);
      if (term.coefficient % period == 0) continue;
      const dsl::Var* v = term.atom.as<dsl::Var>();
      const auto last = v ? last_.find(v->name) : last_.end();
      is_aligned = is_aligned && !is_mn_major && last != last_.end() && last->second != unknown &&
                   term.coefficient > 0 && term.coefficient % depth == 0;
      if (is_aligned) terms += term.coefficient * last->second;
    }
    if (!is_aligned || (!is_mn_major && terms + depth > row))
      return wrong(fmt::format("a tile begins at a multiple of {} rows, and of {} terms in them",
                               lane_rows, depth));
    return {};
  }

  /// Checks that a factor is not private to a thread, since each lane reads elements that other
  /// lanes use too, and that the threads of the nest do not write it.
  Status check_factor(const TensorTile& tile, const dsl::Read& factor, const Stmt& stmt) const {
    std::vector<std::string> buffers = {factor.tensor};
    for (const Expr& index : factor.indices)
      dsl::for_each(index, [&](const Expr& e) {
        if (const dsl::Read* r = e.as<dsl::Read>()) buffers.push_back(r->tensor);
      });
    for (const std::string& buffer : buffers) {
      if (is_own(buffer))
        return illegal_tile(
            fmt::format("a factor of {} is read from '{}', which each thread has for "
                        "itself",
                        tile.name, buffer),
            stmt);
      if (written_.contains(buffer))
        return illegal_tile(
            fmt::format("a factor of {} is read from '{}', which the same threads write", tile.name,
                        buffer),
            stmt);
    }
    return {};
  }

  bool is_own(const std::string& buffer) const {
    const auto found = buffers_.find(buffer);
    return found != buffers_.end() &&
           (found->second->scope == Scope::Local || found->second->scope == Scope::Register);
  }

  bool reads_own(const Expr& expr) const {
    bool found = false;
    dsl::for_each(expr, [&](const Expr& e) {
      if (const dsl::Read* r = e.as<dsl::Read>()) found |= is_own(r->tensor);
    });
    return found;
  }

  static std::set<std::string> written_in(const Block& body) {
    std::set<std::string> names;
    for_each(body, [&](const Stmt& stmt) {
      for_each_access(stmt, [&](const BufferAccess& access) {
        if (access.is_store) names.insert(access.buffer);
      });
    });
    return names;
  }

  const Limits& limits_;
  const ThreadNest* threads_ = nullptr;
  static constexpr int64_t unknown = -1;
  std::map<std::string, const Buffer*> buffers_;  ///< buffers of the phase
  std::map<std::string, int64_t> last_;  ///< last value of a loop that begins at 0, or unknown
  std::set<std::string> written_;        ///< buffers that the threads of the nest write
  std::vector<std::string>
      rolled_;  ///< variables of serial loops inside of the nest, around the statement
  std::vector<Expr> decide_;  ///< bounds and conditions of `inside` around the statement
};

}  // namespace

std::span<const TensorTile> tensor_tiles() { return rows; }

const TensorTile* find_tensor_tile(std::string_view name) {
  const auto* row = std::ranges::find(rows, name, &TensorTile::name);
  return row == std::end(rows) ? nullptr : row;
}

bool takes(const TensorTile& tile, DType factor) {
  return factor == tile.operand || (tile.is_of_core() && tile.operand == Int8 && factor == UInt8);
}

bool has_tile(const TensorTile& tile, int architecture, bool is_variant_a) {
  if (tile.is_of_core()) return false;
  return tile.is_of_warpgroup ? architecture == tile.least_architecture && is_variant_a
                              : architecture >= tile.least_architecture;
}

double multiply_adds(const TensorTile& tile, const Gpu& gpu) {
  return gpu.tensor_fma * size_bytes(Float16) / size_bytes(tile.operand) / tile.instructions *
         (tile.is_of_warpgroup ? gpu.warpgroup_speed : 1);
}

bool has_columns(const TensorTile& tile, int64_t columns) {
  // Integer tiles with more than 32 columns exist for multiples of 16 (PTX ISA, "Asynchronous
  // Warpgroup Level Matrix").
  const int64_t step = tile.operand == Int8 && columns > 32 ? 16 : 8;
  // Programs have no loops of one iteration, so a loop over columns has two or more.
  return columns > tile_columns && columns <= most_warpgroup_columns && columns % step == 0;
}

bool has_mn_major(const TensorTile& tile, int64_t neighbours) {
  return tile.is_of_warpgroup && size_bytes(tile.operand) == 2 &&
         (neighbours == 16 || neighbours == 32 || neighbours == most_mn_neighbours);
}

Result<TensorNest> tensor_nest(const Loop& loop, const ThreadNest& threads) {
  const TensorTile& tile = *loop.tile;
  const Stmt whole{loop};
  std::vector<const Loop*> inner;
  for (const Loop* l = only_loop(*loop.body); l; l = only_loop(*l->body)) inner.push_back(l);
  const bool has_column_groups = tile.is_of_warpgroup && inner.size() == 4;
  const bool is_whole = has_column_groups || inner.size() == (tile.is_of_warpgroup ? 3 : 2);
  const Loop* depth = is_whole ? inner.back() : nullptr;
  const Loop* column = is_whole ? inner[inner.size() - 2] : nullptr;
  const Loop* columns = is_whole && tile.is_of_warpgroup ? inner[inner.size() - 3] : nullptr;
  const Loop* column_groups = has_column_groups ? inner.front() : nullptr;
  if (!runs_to(&loop, tile_part) || !runs_to(column, tile_part) || !runs_to(depth, tile.depth))
    return illegal_tile(
        fmt::format("{} is loops of {}, {}{} and {} inside each other", tile.name, tile_part,
                    tile.is_of_warpgroup ? "columns / 8, " : "", tile_part, tile.depth),
        whole);
  const auto is_counted = [](const Loop& l) {
    return l.kind == LoopKind::Tensor && dsl::is_int(l.begin, 0) && dsl::as_int(l.end);
  };
  if (column_groups &&
      (!runs_to(columns, most_mn_neighbours / tile_columns) || !is_counted(*column_groups) ||
       !has_columns(tile, iterations(*column_groups) * most_mn_neighbours)))
    return illegal_tile(
        fmt::format("{0} has groups of {1} columns, up to {2}: '{3}' of {4} turns in "
                    "'{5}', not {6} in {7}",
                    tile.name, most_mn_neighbours, most_warpgroup_columns, columns->variable,
                    most_mn_neighbours / tile_columns, column_groups->variable,
                    dsl::to_string(columns->end), dsl::to_string(column_groups->end)),
        whole);
  if (columns && !column_groups &&
      (!is_counted(*columns) || !has_columns(tile, iterations(*columns) * tile_columns)))
    return illegal_tile(no_such_columns(tile, *columns), whole);
  const Assign* sum = depth->body->size() == 1 ? depth->body->front().as<Assign>() : nullptr;
  const dsl::Binary* product = sum ? sum->value.as<dsl::Binary>() : nullptr;
  if (!product || sum->combine != Combine::Sum || product->op != dsl::BinaryOp::Mul)
    return illegal_tile(fmt::format("{} is one sum of products, without a condition", tile.name),
                        whole);
  const dsl::Read *a = as_factor(product->a, tile), *b = as_factor(product->b, tile);
  if (!a || !b)
    return illegal_tile(
        fmt::format("the factors of {} are elements of memory, of {} summed as {}", tile.name,
                    tw::to_string(tile.operand), tw::to_string(tile.accumulator)),
        whole);
  if (dsl::uses_var(sum->indices, depth->variable))
    return illegal_tile(
        fmt::format("{} sums over '{}', which indexes the result", tile.name, depth->variable),
        whole);
  const size_t count = threads.loops.size();
  const auto has_threads = [&](size_t from_within, int64_t extent) {
    return count >= from_within && dsl::is_int(threads.loops[count - from_within]->end, extent);
  };
  if (!has_threads(1, lane_columns) || !has_threads(2, lane_rows) ||
      (tile.is_of_warpgroup && !has_threads(3, warpgroup_warps)))
    return illegal_tile(
        fmt::format("{} is computed by a warp{}: the innermost threads are {}{} by {}", tile.name,
                    tile.is_of_warpgroup ? "group" : "", tile.is_of_warpgroup ? "4 by " : "",
                    lane_rows, lane_columns),
        whole);
  TensorNest nest{&tile,
                  &loop,
                  column,
                  depth,
                  sum,
                  a,
                  b,
                  threads.loops[count - 2]->variable,
                  threads.loops[count - 1]->variable,
                  columns,
                  columns ? threads.loops[count - 3]->variable : "",
                  column_groups};
  const auto is_by_row = [&](const dsl::Read& read) {
    return !dsl::uses_var(read.indices, column->variable) &&
           !dsl::uses_var(read.indices, nest.lane_column) &&
           !(columns && dsl::uses_var(read.indices, columns->variable)) &&
           !(column_groups && dsl::uses_var(read.indices, column_groups->variable));
  };
  const auto is_by_column = [&](const dsl::Read& read) {
    return !dsl::uses_var(read.indices, loop.variable) &&
           !dsl::uses_var(read.indices, nest.lane_row) &&
           !(columns && dsl::uses_var(read.indices, nest.warp));
  };
  if (is_by_row(*a) && is_by_column(*b)) return nest;
  std::swap(nest.by_row, nest.by_column);
  if (is_by_row(*b) && is_by_column(*a)) return nest;
  return illegal_tile(
      fmt::format("one factor of {} depends on '{}' and '{}' and the other on '{}' and "
                  "'{}', neither on both",
                  tile.name, loop.variable, nest.lane_row, nest.lane_column, column->variable),
      whole);
}

int64_t rows_of(const TensorNest& nest) { return nest.columns ? warpgroup_rows : tile_rows; }

int64_t columns_of(const TensorNest& nest) {
  const int64_t column_groups = nest.column_groups ? iterations(*nest.column_groups) : 1;
  return nest.columns ? column_groups * iterations(*nest.columns) * tile_columns : tile_columns;
}

int64_t lane_elements(const TensorTile& tile) { return tile.depth / lane_columns; }

std::vector<Expr> row_indices(const TensorNest& nest, const Expr& part, const Expr& i) {
  const Expr k = dsl::var(nest.lane_column) * Expr(lane_elements(*nest.tile)) + i;
  return dsl::substitute(nest.by_row->indices,
                         {{nest.part->variable, part}, {nest.depth->variable, k}});
}

std::vector<Expr> column_indices(const TensorNest& nest, const Expr& i) {
  // The instruction distributes columns over lanes in the same way as rows: lane row r reads column
  // number r of the tile.
  const Expr k = dsl::var(nest.lane_column) * Expr(lane_elements(*nest.tile)) + i;
  const Expr number = dsl::var(nest.lane_row);
  return dsl::substitute(nest.by_column->indices,
                         {{nest.lane_column, number / Expr(tile_part)},
                          {nest.column->variable, number % Expr(tile_part)},
                          {nest.depth->variable, k}});
}

std::vector<Expr> first_of_rows(const TensorNest& nest) {
  return dsl::substitute(nest.by_row->indices, {{nest.warp, Expr(0)},
                                                {nest.part->variable, Expr(0)},
                                                {nest.lane_row, Expr(0)},
                                                {nest.depth->variable, Expr(0)}});
}

std::vector<Expr> first_of_columns(const TensorNest& nest) {
  dsl::Substitution first = {{nest.lane_column, Expr(0)}, {nest.depth->variable, Expr(0)}};
  for (const Loop* loop : column_loops(nest)) first[loop->variable] = Expr(0);
  return dsl::substitute(nest.by_column->indices, first);
}

std::vector<Expr> first_of_sums(const TensorNest& nest) {
  dsl::Substitution first = {{nest.part->variable, Expr(0)}};
  for (const Loop* loop : column_loops(nest)) first[loop->variable] = Expr(0);
  return dsl::substitute(nest.sum->indices, first);
}

FactorLayout layout_of_rows(const TensorNest& nest, const Buffer& buffer) {
  const Affine at = linear_address(buffer.extents, nest.by_row->indices);
  return {at.coefficient(dsl::var(nest.depth->variable)) != 1, 0};
}

FactorLayout layout_of_columns(const TensorNest& nest, const Buffer& buffer) {
  const Affine at = linear_address(buffer.extents, nest.by_column->indices);
  if (at.coefficient(dsl::var(nest.depth->variable)) == 1) return {};
  const int64_t stride =
      nest.column_groups ? at.coefficient(dsl::var(nest.column_groups->variable)) : 0;
  return {true, stride * size_bytes(buffer.type)};
}

Status check_tensor_tiles(const Phase& phase, const Limits& limits) {
  return TileChecker(limits).check(*phase.body);
}

}  // namespace tw::schedules
