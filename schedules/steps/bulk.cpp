// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/program/tma_copies.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Bulk& s) {
  TW_TRY(StageNest * stage, operand_stage_of(nest, s.name, s.stage));
  if (stage->depth == 1)
    return illegal(s.name,
                   fmt::format("'{}' is copied where it is used: pipeline it first", s.stage));
  for (const NestLoop& loop : stage->loops) {
    if (loop.kind != LoopKind::Serial)
      return illegal(s.name, fmt::format("loop '{}' is unrolled, vectorized, bound or of a box "
                                         "already",
                                         loop.name));
    if (loop.extent > most_tma_iterations)
      return illegal(s.name, fmt::format("loop '{}' has {} iterations, a box has at most {} in a "
                                         "dimension",
                                         loop.name, loop.extent, most_tma_iterations));
  }
  if (stage->loops.size() > most_tma_dimensions)
    return illegal(s.name, fmt::format("'{}' has {} loops, a box has at most {} dimensions: fuse "
                                       "some",
                                       s.stage, stage->loops.size(), most_tma_dimensions));
  for (NestLoop& loop : stage->loops) loop.kind = LoopKind::Bulk;
  return {};
}

}  // namespace tw::schedules
