// SPDX-License-Identifier: Apache-2.0
#include "schedules/tensor_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "schedules/legality.h"

namespace tw::schedules {
namespace {

// A tf32 has the exponent of an f32 and 10 bits after the point. Split into two of them, big and
// small, an f32 loses at most its last three bits: big*big + big*small + small*big is about as
// exact as f32 (arXiv 2203.03341).
constexpr TensorTile rows[] = {
    // name               operand   accumulator  k  mma  sm  input error
    {"mma_m16n8k8_tf32", Float32, Float32, 8, 1, 80, 0x1p-11},
    {"mma_m16n8k8_3xtf32", Float32, Float32, 8, 3, 80, 0x1p-21},
    {"mma_m16n8k16_f16", Float16, Float32, 16, 1, 80, 0},
    {"mma_m16n8k16_bf16", BFloat16, Float32, 16, 1, 80, 0},
    {"mma_m16n8k32_s8", Int8, Int32, 32, 1, 80, 0},
};

tl::unexpected<Error> illegal(const std::string& why, const Stmt& stmt) {
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

bool uses(const std::vector<Expr>& indices, const std::string& variable) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return dsl::uses_var(index, variable); });
}

/// A factor that is an element of memory, widened where its type is narrower than the sum's.
const dsl::Read* as_factor(const Expr& factor, const TensorTile& tile) {
  const dsl::Cast* cast = factor.as<dsl::Cast>();
  const dsl::Read* read = (cast ? cast->a : factor).as<dsl::Read>();
  return read && read->type == tile.operand && factor.type() == tile.accumulator ? read : nullptr;
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
    if (const Loop* loop = stmt.as<Loop>()) return check_loop(*loop, stmt);
    if (const Allocate* allocate = stmt.as<Allocate>()) {
      scopes_[allocate->buffer.name] = allocate->buffer.scope;
      return check(*allocate->body);
    }
    const If* branch = stmt.as<If>();
    return branch ? inside({branch->condition}, *branch->body) : Status{};
  }

  Status check_loop(const Loop& loop, const Stmt& stmt) {
    if (loop.kind == LoopKind::Thread && !threads_) {
      const ThreadNest nest = thread_nest(loop);
      threads_ = &nest;
      written_ = written_in(*nest.loops.back()->body);
      const Status status = check(*nest.loops.back()->body);
      threads_ = nullptr;
      return status;
    }
    if (loop.kind == LoopKind::Tensor) return check_tile(loop, stmt);
    return inside({loop.begin, loop.end}, *loop.body);
  }

  /// What decides whether the body runs must be the same for all lanes of a warp.
  Status inside(const std::vector<Expr>& decide, const Block& body) {
    const size_t before = decide_.size();
    decide_.insert(decide_.end(), decide.begin(), decide.end());
    const Status status = check(body);
    decide_.resize(before);
    return status;
  }

  Status check_tile(const Loop& loop, const Stmt& stmt) {
    if (!loop.tile) return illegal("a loop of a tensor tile stands outside of one", stmt);
    const TensorTile& tile = *loop.tile;
    if (limits_.gpu_architecture > 0 && limits_.gpu_architecture < tile.least_architecture)
      return illegal(fmt::format("{} is of sm_{} and newer, the target is sm_{}", tile.name,
                                 tile.least_architecture, limits_.gpu_architecture),
                     stmt);
    if (!threads_)
      return illegal(fmt::format("{} is computed by threads: bind loops around it", tile.name),
                     stmt);
    TW_TRY(const TensorNest nest, tensor_nest(loop, *threads_));
    for (const Expr& expr : decide_)
      for (const std::string& lane : {nest.lane_row, nest.lane_column})
        if (dsl::uses_var(expr, lane) || reads_own(expr))
          return illegal(fmt::format("{} is computed by all lanes of a warp, but {} decides which",
                                     tile.name, dsl::to_string(expr)),
                         stmt);
    if (!is_own(nest.sum->buffer))
      return illegal(fmt::format("'{}' takes the sums of {}, which are a thread's own: cache_write",
                                 nest.sum->buffer, tile.name),
                     stmt);
    for (const dsl::Read* factor : {nest.by_row, nest.by_column})
      TW_RETURN_IF_ERROR(check_factor(tile, *factor, stmt));
    return {};
  }

  /// Other lanes take part in what this one reads.
  Status check_factor(const TensorTile& tile, const dsl::Read& factor, const Stmt& stmt) const {
    std::vector<std::string> buffers = {factor.tensor};
    for (const Expr& index : factor.indices)
      dsl::for_each(index, [&](const Expr& e) {
        if (const dsl::Read* r = e.as<dsl::Read>()) buffers.push_back(r->tensor);
      });
    for (const std::string& buffer : buffers) {
      if (is_own(buffer))
        return illegal(fmt::format("a factor of {} is read from '{}', which each thread has for "
                                   "itself",
                                   tile.name, buffer),
                       stmt);
      if (written_.contains(buffer))
        return illegal(fmt::format("a factor of {} is read from '{}', which the same threads write",
                                   tile.name, buffer),
                       stmt);
    }
    return {};
  }

  bool is_own(const std::string& buffer) const {
    const auto found = scopes_.find(buffer);
    return found != scopes_.end() &&
           (found->second == Scope::Local || found->second == Scope::Register);
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
      if (const Assign* assign = stmt.as<Assign>()) names.insert(assign->buffer);
    });
    return names;
  }

  const Limits& limits_;
  const ThreadNest* threads_ = nullptr;
  std::map<std::string, Scope> scopes_;
  std::set<std::string> written_;  ///< in the nest
  std::vector<Expr> decide_;       ///< bounds and conditions around, inside of the nest
};

}  // namespace

std::span<const TensorTile> tensor_tiles() { return rows; }

const TensorTile* find_tensor_tile(std::string_view name) {
  const auto* row = std::ranges::find(rows, name, &TensorTile::name);
  return row == std::end(rows) ? nullptr : row;
}

Result<TensorNest> tensor_nest(const Loop& loop, const ThreadNest& threads) {
  const TensorTile& tile = *loop.tile;
  const Stmt whole{loop};
  const Loop* column = only_loop(*loop.body);
  const Loop* depth = column ? only_loop(*column->body) : nullptr;
  if (!runs_to(&loop, tile_part) || !runs_to(column, tile_part) || !runs_to(depth, tile.depth))
    return illegal(fmt::format("{} is loops of {}, {} and {} inside each other", tile.name,
                               tile_part, tile_part, tile.depth),
                   whole);
  const Assign* sum = depth->body->size() == 1 ? depth->body->front().as<Assign>() : nullptr;
  const dsl::Binary* product = sum ? sum->value.as<dsl::Binary>() : nullptr;
  if (!product || sum->combine != Combine::Sum || product->op != dsl::BinaryOp::Mul)
    return illegal(fmt::format("{} is one sum of products, without a condition", tile.name), whole);
  const dsl::Read *a = as_factor(product->a, tile), *b = as_factor(product->b, tile);
  if (!a || !b)
    return illegal(
        fmt::format("the factors of {} are elements of memory, of {} summed as {}", tile.name,
                    tw::to_string(tile.operand), tw::to_string(tile.accumulator)),
        whole);
  if (uses(sum->indices, depth->variable))
    return illegal(
        fmt::format("{} sums over '{}', which indexes the result", tile.name, depth->variable),
        whole);
  const size_t count = threads.loops.size();
  if (count < 2 || !dsl::is_int(threads.loops[count - 1]->end, lane_columns) ||
      !dsl::is_int(threads.loops[count - 2]->end, lane_rows))
    return illegal(fmt::format("{} is computed by a warp: the innermost threads are {} by {}",
                               tile.name, lane_rows, lane_columns),
                   whole);
  TensorNest nest{&tile,
                  &loop,
                  column,
                  depth,
                  sum,
                  a,
                  b,
                  threads.loops[count - 2]->variable,
                  threads.loops[count - 1]->variable};
  const auto is_by_row = [&](const dsl::Read& read) {
    return !uses(read.indices, column->variable) && !uses(read.indices, nest.lane_column);
  };
  const auto is_by_column = [&](const dsl::Read& read) {
    return !uses(read.indices, loop.variable) && !uses(read.indices, nest.lane_row);
  };
  if (is_by_row(*a) && is_by_column(*b)) return nest;
  std::swap(nest.by_row, nest.by_column);
  if (is_by_row(*b) && is_by_column(*a)) return nest;
  return illegal(
      fmt::format("one factor of {} depends on '{}' and '{}' and the other on '{}' and "
                  "'{}', neither on both",
                  tile.name, loop.variable, nest.lane_row, nest.lane_column, column->variable),
      whole);
}

int64_t lane_elements(const TensorTile& tile) { return tile.depth / lane_columns; }

std::vector<Expr> row_indices(const TensorNest& nest, const Expr& part, const Expr& i) {
  const Expr k = dsl::var(nest.lane_column) * Expr(lane_elements(*nest.tile)) + i;
  return dsl::substitute(nest.by_row->indices,
                         {{nest.part->variable, part}, {nest.depth->variable, k}});
}

std::vector<Expr> column_indices(const TensorNest& nest, const Expr& i) {
  // The lanes of a column stand where those of a row do: r is the column's number in the tile.
  const Expr k = dsl::var(nest.lane_column) * Expr(lane_elements(*nest.tile)) + i;
  const Expr number = dsl::var(nest.lane_row);
  return dsl::substitute(nest.by_column->indices,
                         {{nest.lane_column, number / Expr(tile_part)},
                          {nest.column->variable, number % Expr(tile_part)},
                          {nest.depth->variable, k}});
}

Status check_tensor_tiles(const Phase& phase, const Limits& limits) {
  return TileChecker(limits).check(*phase.body);
}

}  // namespace tw::schedules
