// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the choices from which given steps are constructed, i.e. inverts a construction, for
// schedules whose configuration is not known. Free function; thread-safe if the functions in
// PointSearch are.

#include <functional>
#include <optional>
#include <vector>

#include "schedules/space/construction.h"
#include "schedules/step.h"

namespace tw::schedules {

/// The problem to search. Choice i is an index in [0, counts[i]).
struct PointSearch {
  std::vector<int> counts;
  /// Returns the schedule for the choices, and records in `trace` how many steps the schedule had
  /// when each decision was first used.
  std::function<Schedule(const std::vector<int>& choices, Trace& trace)> construct;
  std::function<bool(const std::vector<int>& choices)> allowed;
};

/// Returns allowed choices from which `construct` makes exactly these steps. Returns nullopt if
/// there are no such choices, or if none were found within `most_constructions` calls of
/// `construct`.
std::optional<std::vector<int>> find_choices(const PointSearch& search,
                                             const std::vector<Step>& steps,
                                             int most_constructions);

}  // namespace tw::schedules
