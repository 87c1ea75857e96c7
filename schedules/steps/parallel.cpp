// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Parallel& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.reduction && stage->stage.scan) return illegal(s.name, runs_in_order(s.loop));
  if (loop.reduction)
    return illegal(s.name,
                   fmt::format("loop '{}' reduces: two tasks would write one element", s.loop));
  if (loop.kind != LoopKind::Serial)
    return illegal(s.name, fmt::format("loop '{}' is unrolled or vectorized", s.loop));
  if (loop.overlaps)
    return illegal(
        s.name,
        fmt::format("loop '{}' has a shifted tail: two tasks would write one element", s.loop));
  if (stage->at)
    return illegal(s.name, fmt::format("stage '{}' is computed inside another", s.stage));
  loop.parallel = true;
  return {};
}

}  // namespace tw::schedules
