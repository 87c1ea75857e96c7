// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Axis;

Status apply(Nest& nest, const Pad& s) {
  constexpr int64_t most_elements = 1024;
  TW_TRY(StageNest * stage, cached_stage_of(nest, s.name, s.stage));
  if (stage->padding) return illegal(s.name, fmt::format("'{}' is padded already", s.stage));
  if (stage->swizzle > 0)
    return illegal(s.name, fmt::format("'{}' is swizzled: one or the other", s.stage));
  if (s.elements < 1 || s.elements > most_elements)
    return illegal(
        s.name, fmt::format("the padding has 1 to {} elements, not {}", most_elements, s.elements));
  const std::vector<Axis>& axes = stage->stage.axes;
  const auto axis = std::find_if(axes.begin(), axes.end(),
                                 [&](const Axis& a) { return a.name == s.stage + "." + s.loop; });
  if (axis == axes.end())
    return illegal(s.name, fmt::format("'{}' has no dimension for loop '{}'", s.stage, s.loop));
  stage->padding = {static_cast<size_t>(axis - axes.begin()), s.elements};
  return {};
}

}  // namespace tw::schedules
