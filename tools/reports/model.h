// SPDX-License-Identifier: Apache-2.0
#pragma once
// The output of `tune --model` about networks. Not thread-safe.

#include "base/result.h"
#include "base/target.h"
#include "db/store.h"
#include "tools/surroundings.h"
#include "tools/tuning.h"
#include "tuner/network/tune_model.h"

namespace tw::tools {

/// Prints results in the format of the flags: table, json or csv. Of several variants JSON has the
/// first one, and all of them in "variants". Environment if stdout cannot be written.
Status print_model(const tuner::TunedModel& tuned, const TuneFlags& flags,
                   const Surroundings& here);

/// Prints the plans that tuning would begin with, and what is known of their kernels. Of several
/// variants JSON has the first one, and all of them in "variants". Requires: each run has a plan.
Status print_dry_run(const tuner::TunedModel& tuned, const TuneFlags& flags,
                     const Surroundings& here, const Target& target, db::Store& store);

}  // namespace tw::tools
