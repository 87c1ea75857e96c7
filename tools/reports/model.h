// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prints the results of `tune --model`. Not thread-safe.

#include "base/result.h"
#include "base/target.h"
#include "db/store.h"
#include "tools/surroundings.h"
#include "tools/tuning.h"
#include "tuner/network/tune_model.h"

namespace tw::tools {

/// Prints the tuned network in the format of the flags: table, JSON or CSV. In JSON, the top level
/// describes the first variant; if there are several variants, "variants" lists all of them. Fails
/// with Environment if standard output cannot be written.
Status print_model(const tuner::TunedModel& tuned, const TuneFlags& flags,
                   const Surroundings& here);

/// Prints for each variant the plan with which tuning would begin, and for each kernel of the plan
/// its time and the number of its known trials. In JSON, the top level describes the first variant;
/// if there are several variants, "variants" lists all of them. Requires: each run has a plan.
Status print_dry_run(const tuner::TunedModel& tuned, const TuneFlags& flags,
                     const Surroundings& here, const Target& target, db::Store& store);

}  // namespace tw::tools
