// SPDX-License-Identifier: Apache-2.0
#pragma once
// Picks the schedule that a tuning run would measure first, without such a run.

#include <string>

#include "base/result.h"
#include "base/stop.h"
#include "base/target.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

/// The schedule that a search begins with, as tw1 text: by what the database and its layers know of
/// the workload elsewhere and of workloads like it, else by the cost model alone
/// (predicted_schedule()). Nothing is built. Deterministic. `notes`, which may be null, gets a note
/// for records that could not be read or learned from. Errors as schedules::Space::derive(), and as
/// check_not_stopped() where the token stopped.
Result<std::string> first_pick(db::Store& store, const dsl::Workload& workload,
                               const Target& target, int threads, const StopToken& stop,
                               Notes* notes = nullptr);

}  // namespace tw::tuner
