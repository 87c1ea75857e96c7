// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Unroll& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name, fmt::format("loop '{}' is already vectorized or parallel", s.loop));
  if (loop.extent > 256)
    return illegal(s.name,
                   fmt::format("loop '{}' has {} iterations, at most 256 unroll: split it first",
                               s.loop, loop.extent));
  loop.kind = LoopKind::Unrolled;
  return {};
}

}  // namespace tw::schedules
