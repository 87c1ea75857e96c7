// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers tasks from the database, by the results of earlier runs. Private to tune.cpp.

#include "db/store.h"
#include "dsl/workload.h"
#include "tuner/tune.h"

namespace tw::tuner {

/// The best kernel that the database knows for the task, compiled if options.builds_winners.
/// NoCandidate if the database knows none.
Result<Tuned> from_database(const TaskSpec& task, const Target& target, const TuneOptions& options,
                            db::Store& store, const Environment& environment);

}  // namespace tw::tuner
