// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const CacheWrite& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_RETURN_IF_ERROR(check_no_scan(*stage, s.name));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  if (stage->cache) return illegal(s.name, fmt::format("'{}' has an accumulator already", s.stage));
  if (stage->stage.combine == Combine::None)
    return illegal(s.name, fmt::format("'{}' accumulates nothing: it is no reduction", s.stage));
  const NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial) return illegal(s.name, "the loop is unrolled or vectorized");
  if (s.scope != Scope::Register && s.scope != Scope::Local)
    return illegal(s.name,
                   fmt::format("an accumulator is register or local, not {}", to_string(s.scope)));
  stage->cache = StageNest::Cache{s.loop, s.scope};
  return {};
}

}  // namespace tw::schedules
