// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "schedules/steps/editing.h"

namespace tw::schedules {

namespace {

std::vector<std::string> scanning_loops(const std::vector<NestLoop>& loops) {
  std::vector<std::string> names;
  for (const NestLoop& loop : loops)
    if (loop.reduction) names.push_back(loop.name);
  return names;
}

}  // namespace

Status apply(Nest& nest, const Reorder& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (s.loops.empty()) return illegal(s.name, "no loop is named");
  std::vector<int> places;
  for (const std::string& name : s.loops) {
    TW_TRY(const int index, loop_index(*stage, s.name, name));
    places.push_back(index);
  }
  std::vector<int> sorted = places;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return illegal(s.name, "a loop is named twice");
  int first_moved = static_cast<int>(stage->loops.size());
  for (size_t i = places.size(); i > 0; --i)
    if (places[i - 1] != sorted[i - 1]) first_moved = sorted[i - 1];
  TW_RETURN_IF_ERROR(check_untouched(nest, *stage, s.name, first_moved));
  const std::vector<NestLoop> before = stage->loops;
  for (size_t i = 0; i < places.size(); ++i)
    stage->loops[static_cast<size_t>(sorted[i])] = before[static_cast<size_t>(places[i])];
  if (stage->stage.scan && scanning_loops(before) != scanning_loops(stage->loops))
    return illegal(s.name, fmt::format("'{}' scans along '{}': the loops that this axis was split "
                                       "into keep their order",
                                       s.stage, stage->stage.scan->along));
  return {};
}

}  // namespace tw::schedules
