// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers tasks from the database, without tuning. Private to tune.cpp.

#include "db/store.h"
#include "dsl/workload.h"
#include "tuner/tune.h"

namespace tw::tuner {

/// The best kernel that the database knows for the task (best_known()). It is compiled if
/// options.builds_winners. NoCandidate if the database knows no kernel.
Result<Tuned> from_database(const TaskSpec& task, const Target& target, const TuneOptions& options,
                            db::Store& store, const Environment& environment);

}  // namespace tw::tuner
