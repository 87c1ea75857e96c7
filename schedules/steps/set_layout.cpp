// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const SetLayout& s) {
  const bool known = nest.compute.find_input(s.tensor) || nest.compute.find_stage(s.tensor);
  if (!known) return illegal(s.name, fmt::format("there is no tensor '{}'", s.tensor));
  if (nest.compute.shape_of(s.tensor).empty())
    return illegal(s.name, fmt::format("'{}' is a single number", s.tensor));
  auto layout = dsl::Layout::parse(s.layout, nest.compute.letters_of(s.tensor));
  if (!layout) return fail(ErrorCode::Invalid, layout.error().message);
  if (!layout->storage_bytes(nest.compute.shape_of(s.tensor), nest.compute.type_of(s.tensor)))
    return illegal(
        s.name, fmt::format("'{}' has more than 2^56 bytes in the layout {}", s.tensor, s.layout));
  for (const StageNest& stage : nest.stages) {
    if (stage.at && stage.result() == s.tensor)
      return illegal(s.name, fmt::format("'{}' is computed inside another stage", s.tensor));
    if (stage.epilogue && stage.stage.name == s.tensor)
      return illegal(s.name, fmt::format("'{}' is not in memory, '{}' takes its place", s.tensor,
                                         stage.result()));
  }
  nest.layouts.insert_or_assign(s.tensor, std::move(*layout));
  return {};
}

}  // namespace tw::schedules
