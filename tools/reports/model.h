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

/// Prints the tuned network in the format of the flags: table, json or csv. With several variants,
/// the top level of the JSON describes the first variant, and "variants" lists all of them.
/// Environment if stdout cannot be written.
Status print_model(const tuner::TunedModel& tuned, const TuneFlags& flags,
                   const Surroundings& here);

/// Prints the plans with which tuning would begin, and for each of their kernels its time and known
/// trials. With several variants, the top level of the JSON describes the first variant, and
/// "variants" lists all of them. Requires: each run has a plan.
Status print_dry_run(const tuner::TunedModel& tuned, const TuneFlags& flags,
                     const Surroundings& here, const Target& target, db::Store& store);

}  // namespace tw::tools
