// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the points of schedules whose steps alone are known, because they were written by hand or
// were stored without their configuration. Free functions; thread-safe.

#include <optional>

#include "base/result.h"
#include "base/stop.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"

namespace tw::schedules {

/// Returns an allowed point whose schedule has the steps of `schedule`. It need not be the point
/// from which the schedule was made. nullopt if the schedule is of another space, or if no point
/// was found within `most_constructions`. A construction takes about 50 us. Half of all points are
/// found with 62 constructions and nine in ten with 184; computes with five stages (attention) take
/// the most, and all are found within the default.
std::optional<Point> point_of(const Space& space, const Schedule& schedule,
                              int most_constructions = 20'000);

/// Returns a point whose schedule has many steps in common with `schedule`, which may be of another
/// space. It is a local maximum: starting from the best of a few samples, no change of one decision
/// gives more common steps. The number of points that the search constructs is bounded by weight().
/// The point's schedule may be illegal. Errors as check_not_stopped(). Requires: the schedule has
/// no error.
Result<Point> nearest_point(const Space& space, const Schedule& schedule,
                            const StopToken& stop = {});

}  // namespace tw::schedules
