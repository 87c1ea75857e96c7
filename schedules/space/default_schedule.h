// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schedule that is used for a workload before anything was measured.

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "schedules/schedule.h"

namespace tw::schedules {

/// Returns the schedule of the default point of the workload's space. If no program can be made
/// from that schedule within the target's limits, returns the loops as declared, with the layouts
/// that the workload asks for. Fails with the errors of Space::derive().
Result<Schedule> default_schedule(const dsl::Workload& workload, const Target& target);

}  // namespace tw::schedules
