// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/prepared.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

// An iteration must read a contiguous part of the tensor. lower() checks this, because later steps
// may still change the loops and the layout of the tensor.
Status apply(Nest& nest, const Prefetch& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int loop, loop_index(*stage, s.name, s.loop));
  TW_TRY(const int at, loop_index(*stage, s.name, s.at));
  if (at <= loop)
    return illegal(s.name, fmt::format("loop '{}' is not inside of loop '{}'", s.at, s.loop));
  if (!is_kernel_argument(nest, s.tensor) || !reads(*stage, s.tensor))
    return illegal(s.name, fmt::format("'{}' is no input that '{}' reads", s.tensor, s.stage));
  for (const StageNest::Ahead& other : stage->prefetches)
    if (other.tensor == s.tensor)
      return illegal(s.name, fmt::format("'{}' is prefetched already", s.tensor));
  stage->prefetches.push_back({s.tensor, s.loop, s.at});
  return {};
}

}  // namespace tw::schedules
