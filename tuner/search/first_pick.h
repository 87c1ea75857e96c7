// SPDX-License-Identifier: Apache-2.0
#pragma once
// Picks the schedule that a tuning run would measure first, without running one.

#include <string>

#include "base/result.h"
#include "base/stop.h"
#include "base/target.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

/// The schedule with which a search begins, as tw1 text. It comes from what the database and its
/// layers know of the workload on other devices and of similar workloads; without such knowledge
/// the cost model alone decides (predicted_schedule()). Nothing is built. Deterministic. `notes`
/// gets a note if records could not be read or learned from; it may be null. Errors as
/// schedules::Space::derive(), and as check_not_stopped() if the token has stopped.
Result<std::string> first_pick(db::Store& store, const dsl::Workload& workload,
                               const Target& target, int threads, const StopToken& stop,
                               Notes* notes = nullptr);

}  // namespace tw::tuner
