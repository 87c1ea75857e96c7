// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const StoreIn& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (s.scope != Scope::Register && s.scope != Scope::Local)
    return illegal(s.name, "a thread has registers and local memory, no other memory");
  if (!stage->at)
    return illegal(s.name, fmt::format("'{}' has a phase of its own: compute_at places it in the "
                                       "loops of another stage",
                                       s.stage));
  if (stage->stage.combine != Combine::None)
    return illegal(s.name,
                   fmt::format("'{}' reduces: cache_write keeps its sums in registers", s.stage));
  if (stage->is_staged_operand || stage->copies_results())
    return illegal(s.name, fmt::format("'{}' copies for threads that share its buffer", s.stage));
  if (stage->stored_in) return illegal(s.name, fmt::format("'{}' is in threads already", s.stage));
  if (stage->window) return illegal(s.name, fmt::format("'{}' has a window (store_at)", s.stage));
  stage->stored_in = s.scope;
  return {};
}

}  // namespace tw::schedules
