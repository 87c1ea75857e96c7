// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds choices that construct given steps. This is the inverse of a construction, for schedules
// whose configuration is not known. Free function; thread-safe if the functions that it gets are.

#include <functional>
#include <optional>
#include <vector>

#include "schedules/space/construction.h"
#include "schedules/step.h"

namespace tw::schedules {

/// The problem to search: a choice is an index in [0, count), and `counts` has an entry for each
/// choice.
struct PointSearch {
  std::vector<int> counts;
  /// Returns the schedule of the choices, and records in `trace` which steps used which decisions.
  std::function<Schedule(const std::vector<int>& choices, Trace& trace)> construct;
  std::function<bool(const std::vector<int>& choices)> allowed;
};

/// Returns allowed choices that construct these steps. nullopt if there are none, or if none were
/// found within `most_constructions`.
std::optional<std::vector<int>> find_choices(const PointSearch& search,
                                             const std::vector<Step>& steps,
                                             int most_constructions);

}  // namespace tw::schedules
