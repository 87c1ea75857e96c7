// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "schedules/steps/editing.h"

namespace tw::schedules {

namespace {

/// True if a loop around the loop with this index is a reduction loop of more than one iteration.
bool reduces_around(const StageNest& stage, int index) {
  return std::any_of(stage.loops.begin(), stage.loops.begin() + index,
                     [](const NestLoop& loop) { return loop.reduction && loop.extent > 1; });
}

}  // namespace

Status apply(Nest& nest, const Bind& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name, fmt::format("loop '{}' is unrolled, vectorized or parallel", s.loop));
  if (loop.reduction && stage->stage.scan) return illegal(s.name, runs_in_order(s.loop));
  if (loop.reduction) {
    if (static_cast<size_t>(index) + 1 != stage->loops.size() || reduces_around(*stage, index))
      return illegal(s.name, fmt::format("loop '{}' reduces, and is not the innermost and only one "
                                         "that does: two threads would write one element; rfactor "
                                         "makes partial results that do not",
                                         s.loop));
    loop.kind = LoopKind::Reduce;
    return {};
  }
  if (loop.overlaps)
    return illegal(s.name, fmt::format("loop '{}' has a shifted tail: two threads would write one "
                                       "element",
                                       s.loop));
  loop.kind = LoopKind::Thread;
  return {};
}

}  // namespace tw::schedules
