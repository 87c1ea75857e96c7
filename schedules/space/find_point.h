// SPDX-License-Identifier: Apache-2.0
#pragma once
// The points of schedules that are known by their steps alone: written by hand, or stored without
// their configuration. Free functions; thread-safe.

#include <optional>

#include "base/result.h"
#include "base/stop.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"

namespace tw::schedules {

/// An allowed point of the space with the steps of the schedule, not always the one that they came
/// from; nothing for schedules of another space. A construction takes some 50 us: one point in two
/// is found with 62 of them, nine in ten with 184, all within the default; of computes with five
/// stages (attention) most.
std::optional<Point> point_of(const Space& space, const Schedule& schedule,
                              int most_constructions = 20'000);

/// The point whose schedule has the most steps in common with a schedule that may be of another
/// space: a local maximum over points that differ in one decision, from the best of a few
/// samples; the number of points that it constructs is bounded by weight(). Its schedule may be
/// illegal. Errors as check_not_stopped(). Requires: the schedule has no error.
Result<Point> nearest_point(const Space& space, const Schedule& schedule,
                            const StopToken& stop = {});

}  // namespace tw::schedules
