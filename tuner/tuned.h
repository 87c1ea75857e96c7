// SPDX-License-Identifier: Apache-2.0
#pragma once
// Results of earlier runs. Private to tune.cpp.

#include "db/store.h"
#include "dsl/workload.h"
#include "tuner/tune.h"

namespace tw::tuner {

/// The best kernel that the database knows; compiled if options.builds_winners. NoCandidate where
/// it knows none.
Result<Tuned> from_database(const TaskSpec& task, const Target& target, const TuneOptions& options,
                            db::Store& store, const Environment& environment);

}  // namespace tw::tuner
