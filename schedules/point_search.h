// SPDX-License-Identifier: Apache-2.0
#pragma once
// From steps back to a point of a space: the inverse of construct(). Free function; thread-safe.

#include <optional>
#include <vector>

#include "schedules/knobs.h"
#include "schedules/stage_plan.h"
#include "schedules/step.h"

namespace tw::schedules {

/// A point that meets the constraints and whose construction has these steps; nothing when no point
/// has, or when `most_constructions` did not find one.
std::optional<Point> find_point(const ComputePlan& plan, const Knobs& knobs,
                                const std::vector<Step>& steps, int most_constructions);

}  // namespace tw::schedules
