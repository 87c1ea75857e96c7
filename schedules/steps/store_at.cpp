// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/integer.h"
#include "schedules/program/affine.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

namespace {

/// True if the stage still has the loops that compute_at made, and has no accumulator, no sliding
/// window (store_at) and no buffer in threads (store_in). The stage must not be a staged operand,
/// and no stage may be computed inside of it.
bool is_only_placed(const Nest& nest, const StageNest& stage) {
  const auto computed_inside = [&](const StageNest& other) {
    return other.at && other.at->consumer == stage.stage.name;
  };
  const auto placed = default_loops(stage.stage, "", stage.region_extent);
  return !stage.cache && !stage.is_staged_operand && !stage.window && !stage.stored_in &&
         std::none_of(nest.stages.begin(), nest.stages.end(), computed_inside) &&
         std::equal(stage.loops.begin(), stage.loops.end(), placed.begin(), placed.end(),
                    [](const NestLoop& a, const NestLoop& b) {
                      return a.name == b.name && a.kind == b.kind && a.extent == b.extent;
                    });
}

/// Returns the window of `stage` that slides forward with the iterations of `loop`, the loop at
/// which the stage is computed. Fails unless the region that an iteration reads moves along exactly
/// one axis, by a fixed number of elements, and overlaps the region of the next iteration.
Result<StageNest::Window> window_of(const StageNest& stage, const NestLoop& loop) {
  const auto uses_loop = [&](const Expr& e) { return dsl::uses_var(e, loop.variable); };
  const auto& low = stage.region_offset;
  const auto moves = std::count_if(low.begin(), low.end(), uses_loop);
  const auto moved = std::find_if(low.begin(), low.end(), uses_loop);
  const auto no_window = [&](const std::string& why) {
    return illegal("store_at", fmt::format("what iterations of loop '{}' read of '{}' {}",
                                           loop.name, stage.stage.name, why));
  };
  if (moves != 1) return no_window(fmt::format("moves along {} of its axes, not along one", moves));
  const auto d = static_cast<size_t>(moved - low.begin());
  Affine rest = to_affine(*moved);
  const int64_t step = rest.coefficient(dsl::var(loop.variable));
  rest.add(dsl::var(loop.variable), -step);
  if (step < 1 || uses_loop(to_expr(rest)))
    return no_window("does not move forward by a fixed number of elements");
  const int64_t kept = stage.region_extent[d] - step;
  if (kept < 1)
    return no_window(
        fmt::format("moves by {} elements, of which an iteration reads {}: none is "
                    "read twice",
                    step, stage.region_extent[d]));
  return StageNest::Window{d, step, ceil_div(kept, step)};
}

}  // namespace

Status apply(Nest& nest, const StoreAt& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const StageNest* consumer, stage_of(nest, s.name, s.consumer));
  if (!stage->at || stage->copies_results() || stage->at->consumer != s.consumer)
    return illegal(s.name, fmt::format("'{}' is not computed at a loop of '{}': compute_at places "
                                       "it there",
                                       s.stage, s.consumer));
  if (!is_only_placed(nest, *stage))
    return illegal(s.name, fmt::format("'{}' has steps after its compute_at: store it first, then "
                                       "schedule it",
                                       s.stage));
  TW_TRY(const int around, loop_index(*consumer, s.name, s.loop));
  const int index = consumer->find_loop(stage->at->loop);
  if (around + 1 != index)
    return illegal(s.name, fmt::format("'{}' is computed at loop '{}', which is not directly "
                                       "inside of '{}'",
                                       s.stage, stage->at->loop, s.loop));
  const NestLoop& loop = consumer->loops[static_cast<size_t>(index)];
  TW_TRY(const StageNest::Window window, window_of(*stage, loop));
  const size_t d = window.dimension;
  std::vector<Expr> low = stage->region_offset;
  std::vector<int64_t> extents = stage->region_extent;
  const Expr first = dsl::substitute(low[d], loop.variable, Expr(0));
  low[d] = low[d] + Expr(extents[d] - window.step);
  extents[d] = window.step;
  compute_region(*stage, low, extents);
  // The extra iterations that fill the window must not compute elements before the first region, as
  // no iteration reads these.
  stage->guards.push_back(first <= stage->axis.at(stage->stage.axes[d].name));
  stage->window = window;
  return {};
}

}  // namespace tw::schedules
