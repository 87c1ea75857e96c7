// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Pipeline& s) {
  TW_TRY(StageNest * stage, operand_stage_of(nest, s.name, s.stage));
  if (stage->depth > 1) return illegal(s.name, fmt::format("'{}' has a depth already", s.stage));
  constexpr int64_t most_depth = 7;
  if (s.depth < 2 || s.depth > most_depth)
    return illegal(
        s.name, fmt::format("a pipeline is 2 to {} iterations deep, not {}", most_depth, s.depth));
  const NestLoop& loop = loop_around(nest, *stage);
  if (!loop.reduction)
    return illegal(s.name, fmt::format("'{}' is computed at loop '{}' of '{}', which does not "
                                       "reduce",
                                       s.stage, loop.name, stage->at->consumer));
  stage->depth = s.depth;
  return {};
}

}  // namespace tw::schedules
