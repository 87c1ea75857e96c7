// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const LaunchBounds& s) {
  // Largest number of blocks that a multiprocessor of any GPU runs at once.
  constexpr int64_t most_blocks = 32;
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (stage->resident_blocks > 1)
    return illegal(s.name, fmt::format("'{}' has launch bounds already", s.stage));
  if (s.blocks < 2 || s.blocks > most_blocks)
    return illegal(s.name, fmt::format("a multiprocessor runs 2 to {} blocks at once, not {}",
                                       most_blocks, s.blocks));
  if (stage->at)
    return illegal(s.name, fmt::format("stage '{}' is computed inside another", s.stage));
  stage->resident_blocks = s.blocks;
  return {};
}

}  // namespace tw::schedules
