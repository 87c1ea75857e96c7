// SPDX-License-Identifier: Apache-2.0
#pragma once
// Picks the schedule that a tuning run would measure first, without running one.

#include <string>

#include "base/result.h"
#include "base/stop.h"
#include "base/target.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "tuner/search/scoring.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

/// Returns, as tw1 text, the schedule that a tuning run would measure first. The choice uses the
/// trials of similar workloads, and of this workload on other devices, in the database and in the
/// read-only databases below it (its layers). Without such trials the function returns
/// predicted_schedule() with `accepts`. Nothing is measured. Deterministic. `notes`, which may be
/// null, gets a note if records could not be read or the model could not learn from them. Fails
/// with the errors of schedules::Space::derive(), and with that of check_not_stopped() if the token
/// has stopped.
Result<std::string> first_pick(db::Store& store, const dsl::Workload& workload,
                               const Target& target, int threads, const StopToken& stop,
                               Notes* notes = nullptr, const Accepts& accepts = {});

}  // namespace tw::tuner
