// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Specialise& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (stage->specialised)
    return illegal(s.name, fmt::format("'{}' is specialised already", s.stage));
  if (stage->at)
    return illegal(s.name, fmt::format("stage '{}' is computed inside another", s.stage));
  stage->specialised = true;
  return {};
}

}  // namespace tw::schedules
