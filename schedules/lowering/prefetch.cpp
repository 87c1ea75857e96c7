// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/prefetch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/integer.h"
#include "schedules/program/simplify.h"

namespace tw::schedules {
namespace {

tl::unexpected<Error> not_prefetched(const std::string& why, const StageNest& stage) {
  return fail(ErrorCode::Invalid, fmt::format("[prefetch] {}\n  {}", why, describe(stage)));
}

/// Consecutive elements of a tensor's memory.
struct Part {
  Expr first;
  int64_t elements;
};

class NextPart {
 public:
  NextPart(const Nest& nest, const StageNest& stage, const std::string& tensor, size_t loop)
      : stage_(stage),
        tensor_(tensor),
        loop_(loop),
        elements_of_line_(prefetched_line_bytes / size_bytes(nest.compute.type_of(tensor))),
        bounds_(bounds_of_loops(stage)) {
    const std::vector<int64_t> shape = nest.compute.shape_of(tensor);
    const auto set = nest.layouts.find(tensor);
    const dsl::Layout layout = set != nest.layouts.end()
                                   ? set->second
                                   : dsl::Layout::row_major(static_cast<int>(shape.size()));
    extents_ = layout.storage_shape(shape);
    std::vector<Expr> indices;
    for_each_read(stage.stage.body, [&](const dsl::Read& r) {
      if (r.tensor != tensor || !indices.empty()) return;
      for (const Expr& index : r.indices) indices.push_back(dsl::substitute(index, stage.axis));
    });
    if (indices.empty()) return;
    for (const Expr& index : layout.storage_indices(indices))
      indices_.push_back(simplify(index, bounds_));
  }

  int64_t elements() const {
    int64_t all = 1;
    for (const int64_t extent : extents_) all *= extent;
    return all;
  }

  /// Returns the part of the tensor that the next iteration of the loop reads. The last iteration
  /// has no next iteration and gets the part that it reads itself. Invalid if the part is not
  /// contiguous or does not depend on the loop, or if the stage is computed inside of another
  /// stage.
  Result<Part> find() const {
    if (stage_.at)
      return not_prefetched(fmt::format("'{}' is computed inside another stage", stage_.stage.name),
                            stage_);
    std::optional<Part> part = contiguous();
    const NestLoop& loop = stage_.loops[loop_];
    if (!part || !dsl::uses_var(part->first, loop.variable))
      return not_prefetched(fmt::format("an iteration of loop '{}' reads no contiguous part of "
                                        "'{}' of its own",
                                        loop.name, tensor_),
                            stage_);
    const Expr next = dsl::min(dsl::var(loop.variable) + Expr(1), Expr(loop.extent - 1));
    part->first = dsl::substitute(part->first, loop.variable, next);
    return *std::move(part);
  }

  int64_t elements_of_line() const { return elements_of_line_; }
  int64_t lines_of(const Part& part) const { return ceil_div(part.elements, elements_of_line_); }
  const Bounds& bounds() const { return bounds_; }

 private:
  /// Returns the part of the tensor that an iteration reads; nullopt if the part is not contiguous.
  /// The part is contiguous if the iteration fixes the indices of the outer dimensions, reads a
  /// range of the next dimension, and reads all further dimensions as a whole.
  std::optional<Part> contiguous() const {
    if (elements() == 0 || is_data(indices_)) return std::nullopt;
    Part part{Expr(0), elements()};
    size_t d = 0;
    for (; d < indices_.size() && !varies_inside(indices_[d]); ++d) {
      part.elements /= extents_[d];
      part.first = part.first + indices_[d] * Expr(part.elements);
    }
    if (d == indices_.size()) return std::nullopt;
    const std::optional<int64_t> range = range_inside(indices_[d]);
    if (!range) return std::nullopt;
    const int64_t inside = part.elements / extents_[d];
    part.first = part.first + at_first_iterations(indices_[d]) * Expr(inside);
    part.elements = std::min(*range, extents_[d]) * inside;
    for (++d; d < indices_.size(); ++d)
      if (range_inside(indices_[d]).value_or(0) < extents_[d]) return std::nullopt;
    return part;
  }

  /// True if an index is read from memory.
  static bool is_data(const std::vector<Expr>& indices) {
    bool any = false;
    for (const Expr& index : indices) for_each_read(index, [&](const dsl::Read&) { any = true; });
    return any;
  }

  bool varies_inside(const Expr& index) const {
    return std::any_of(stage_.loops.begin() + static_cast<ptrdiff_t>(loop_) + 1, stage_.loops.end(),
                       [&](const NestLoop& l) { return dsl::uses_var(index, l.variable); });
  }

  /// Returns the number of values that an index may have within an iteration of the loop. They form
  /// a range that begins at the value of the index in the first iterations of all loops inside.
  /// Returns nullopt if the index is not proved to stay in such a range.
  std::optional<int64_t> range_inside(const Expr& index) const {
    const Expr within = simplify(index - at_first_iterations(index), bounds_);
    const auto low = bounds_.lower(within), high = bounds_.upper(within);
    if (!low || !high || *low < 0) return std::nullopt;
    return *high + 1;
  }

  Expr at_first_iterations(Expr index) const {
    for (size_t i = loop_ + 1; i < stage_.loops.size(); ++i)
      index = dsl::substitute(index, stage_.loops[i].variable, Expr(0));
    return simplify(index, bounds_);
  }

  const StageNest& stage_;
  const std::string& tensor_;
  const size_t loop_;
  const int64_t elements_of_line_;
  Bounds bounds_;
  std::vector<int64_t> extents_;
  std::vector<Expr> indices_;
};

/// Returns the number of lines that an iteration of `loop` requests if `turns` iterations share
/// `lines`. Invalid if the loop is not serial, has no iterations, or would request more than
/// most_prefetched_lines in an iteration.
Result<int64_t> share_of(int64_t lines, int64_t turns, const NestLoop& loop,
                         const StageNest& stage) {
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return not_prefetched(fmt::format("loop '{}' is not serial", loop.name), stage);
  if (turns == 0)
    return not_prefetched(fmt::format("loop '{}' has no iterations", loop.name), stage);
  const int64_t share = ceil_div(lines, turns);
  if (share > most_prefetched_lines)
    return not_prefetched(
        fmt::format("an iteration of loop '{}' would request {} lines, at most {}: take a loop "
                    "inside of it",
                    loop.name, share, most_prefetched_lines),
        stage);
  return share;
}

/// The iterations of the loops inside of `loop` down to `at`, which are numbered row by row. For
/// loops i in 0..3 and j in 0..4, `turn` is i * 4 + j and `count` is 12.
struct Turns {
  Expr turn = 0;
  int64_t count = 1;
};
Turns turns_between(const StageNest& stage, size_t loop, size_t at) {
  Turns turns;
  for (size_t i = loop + 1; i <= at; ++i) {
    turns.turn = turns.turn * Expr(stage.loops[i].extent) + dsl::var(stage.loops[i].variable);
    turns.count *= stage.loops[i].extent;
  }
  return turns;
}

}  // namespace

Result<PrefetchLines> prefetch_lines(const Nest& nest, const StageNest& stage,
                                     const StageNest::Ahead& ahead) {
  const int loop = stage.find_loop(ahead.loop), at = stage.find_loop(ahead.at);
  if (loop < 0 || at <= loop)
    return not_prefetched(
        fmt::format("there is no loop '{}' inside of a loop '{}'", ahead.at, ahead.loop), stage);
  const NextPart next(nest, stage, ahead.tensor, static_cast<size_t>(loop));
  TW_TRY(const Part part, next.find());
  const Turns turns = turns_between(stage, static_cast<size_t>(loop), static_cast<size_t>(at));
  const int64_t line = next.elements_of_line(), lines = next.lines_of(part);
  TW_TRY(const int64_t share,
         share_of(lines, turns.count, stage.loops[static_cast<size_t>(at)], stage));
  // If there are more turns than lines, no line is left for the last turns. These turns request the
  // last lines again. A request at the end of the tensor begins earlier, so that all its lines
  // begin inside of the tensor.
  const Expr begin = dsl::min(turns.turn * Expr(share), Expr(lines - share)) * Expr(line);
  const Expr last = Expr(next.elements() - 1 - (share - 1) * line);
  return PrefetchLines{ahead.tensor, simplify(dsl::min(part.first + begin, last), next.bounds()),
                       share};
}

std::optional<std::string> prefetch_site(const Nest& nest, const StageNest& stage,
                                         const std::string& tensor, const std::string& loop,
                                         int64_t few_lines) {
  const int outer = stage.find_loop(loop);
  if (outer < 0) return std::nullopt;
  const NextPart next(nest, stage, tensor, static_cast<size_t>(outer));
  const Result<Part> part = next.find();
  if (!part) return std::nullopt;
  const int64_t lines = next.lines_of(*part);
  std::optional<std::string> site;
  int64_t turns = 1;
  for (auto i = static_cast<size_t>(outer) + 1; i < stage.loops.size(); ++i) {
    turns *= stage.loops[i].extent;
    const auto share = share_of(lines, turns, stage.loops[i], stage);
    if (!share) continue;
    site = stage.loops[i].name;
    if (*share <= few_lines) break;
  }
  return site;
}

}  // namespace tw::schedules
