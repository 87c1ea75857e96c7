// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Persist& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (stage->persistent) return illegal(s.name, fmt::format("'{}' is persistent already", s.stage));
  if (!stage->specialised)
    return illegal(s.name,
                   fmt::format("'{}' has no producer warps, which start the copies of the next "
                               "task: specialise it first",
                               s.stage));
  stage->persistent = true;
  return {};
}

}  // namespace tw::schedules
