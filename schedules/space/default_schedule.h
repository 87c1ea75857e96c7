// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schedule that stands for a workload before anything is known of it.

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "schedules/schedule.h"

namespace tw::schedules {

/// The default point of the workload's space; where the target's limits refuse that, the loops as
/// they are declared, on tensors in the layouts that are asked for. Errors as Space::derive().
Result<Schedule> default_schedule(const dsl::Workload& workload, const Target& target);

}  // namespace tw::schedules
