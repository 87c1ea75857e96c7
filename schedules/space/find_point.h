// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds points of a space from the steps of a schedule, for schedules that were written by hand or
// were stored without their configuration. Free functions; thread-safe.

#include <optional>

#include "base/result.h"
#include "base/stop.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"

namespace tw::schedules {

/// Returns an allowed point whose schedule has the steps of `schedule`. It may be another point
/// than the one from which the schedule was made. nullopt if the schedule has an error or is of
/// another space, or if no point was found within `most_constructions`, the number of schedules
/// that are constructed and compared. A construction takes about 50 us. Half of all points are
/// found with 62 constructions and nine in ten with 184. Computes with five stages (attention) take
/// the most, and all are found within the default.
std::optional<Point> point_of(const Space& space, const Schedule& schedule,
                              int most_constructions = 20'000);

/// Returns a point whose schedule has many steps in common with `schedule`, which may be of another
/// space. The search starts from the best of a few samples and changes one decision at a time,
/// until no change gives more common steps. It constructs at most 20,000 points, and fewer the
/// larger the weight() of the space is, so that it takes about as long in every space. The point's
/// schedule may be illegal. Errors as check_not_stopped(). Requires: `schedule` has no error.
Result<Point> nearest_point(const Space& space, const Schedule& schedule,
                            const StopToken& stop = {});

}  // namespace tw::schedules
