// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the choices whose construction has given steps: the inverse of a construction, for
// schedules whose configuration is not known. Free function; thread-safe if the functions given to
// it are.

#include <functional>
#include <optional>
#include <vector>

#include "schedules/space/construction.h"
#include "schedules/step.h"

namespace tw::schedules {

/// The search problem: choices, each of which is an index below a count.
struct PointSearch {
  std::vector<int> counts;
  /// The schedule of some choices, and which steps used which decisions.
  std::function<Schedule(const std::vector<int>& choices, Trace& trace)> construct;
  std::function<bool(const std::vector<int>& choices)> allowed;
};

/// Allowed choices whose construction has these steps; nullopt if there are none, or if they were
/// not found within `most_constructions` constructions.
std::optional<std::vector<int>> find_choices(const PointSearch& search,
                                             const std::vector<Step>& steps,
                                             int most_constructions);

}  // namespace tw::schedules
