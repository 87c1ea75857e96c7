// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Vectorize& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name, fmt::format("loop '{}' is already unrolled or parallel", s.loop));
  if (loop.reduction && stage->stage.scan) return illegal(s.name, runs_in_order(s.loop));
  if (loop.reduction)
    return illegal(s.name,
                   fmt::format("loop '{}' reduces: its iterations share an element; rfactor makes "
                               "partial results that do not",
                               s.loop));
  if (loop.extent > 64)
    return illegal(
        s.name, fmt::format("loop '{}' has {} iterations, a vector has at most 64: split it first",
                            s.loop, loop.extent));
  loop.kind = LoopKind::Vector;
  return {};
}

}  // namespace tw::schedules
