// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the points of a space from the steps of schedules that were written by hand or were stored
// without their configuration. Free functions; thread-safe.

#include <optional>

#include "base/result.h"
#include "base/stop.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"

namespace tw::schedules {

/// Returns an allowed point whose schedule has exactly the steps of `schedule`. If several points
/// have this schedule, it may be any of them. Returns nullopt if `schedule` has an error or is of
/// another space, or if no point was found although `most_constructions` schedules were constructed
/// and compared. A construction takes about 50 us. Half of all points are found with at most 62
/// constructions, and nine in ten with at most 184. Computes with five stages (attention) need the
/// most constructions; all their points are found within the default limit.
std::optional<Point> point_of(const Space& space, const Schedule& schedule,
                              int most_constructions = 20'000);

/// Returns a point whose schedule has many steps in common with `schedule`, which may be of another
/// space. The search starts from the best of a few samples and changes one decision at a time,
/// until no change gives more common steps. It constructs at most 20,000 / weight(space) points, so
/// that it takes about the same time in every space. The point's schedule may be illegal. Fails
/// with the error of check_not_stopped() if the token stops. Requires: `schedule` has no error.
Result<Point> nearest_point(const Space& space, const Schedule& schedule,
                            const StopToken& stop = {});

}  // namespace tw::schedules
