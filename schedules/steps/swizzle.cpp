// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Swizzle& s) {
  TW_TRY(StageNest * stage, cached_stage_of(nest, s.name, s.stage));
  if (s.bytes != 32 && s.bytes != 64 && s.bytes != 128)
    return illegal(s.name, fmt::format("a swizzle is of 32, 64 or 128 bytes, not {}", s.bytes));
  if (stage->swizzle > 0) return illegal(s.name, fmt::format("'{}' is swizzled already", s.stage));
  if (stage->padding)
    return illegal(s.name, fmt::format("'{}' is padded: one or the other", s.stage));
  const int64_t period = 8 * s.bytes;
  int64_t bytes = size_bytes(stage->stage.type);
  for (const int64_t extent : stage->region_extent) bytes *= extent;
  if (bytes % period != 0)
    return illegal(s.name, fmt::format("'{}' has {} bytes, which are no multiple of {}", s.stage,
                                       bytes, period));
  stage->swizzle = static_cast<int>(s.bytes);
  return {};
}

}  // namespace tw::schedules
