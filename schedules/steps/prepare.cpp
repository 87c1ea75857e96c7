// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/prepared.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Prepare& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (stage->prepared) return illegal(s.name, fmt::format("'{}' is prepared already", s.stage));
  stage->prepared = true;
  return check_prepared(nest);
}

}  // namespace tw::schedules
