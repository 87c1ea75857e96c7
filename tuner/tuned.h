// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers tasks from the database, without tuning. Private to tune.cpp.

#include "db/store.h"
#include "dsl/workload.h"
#include "tuner/tune.h"

namespace tw::tuner {

/// Returns the best kernel that the database has for the task (best_known()). The kernel is
/// compiled if options.builds_winners. Fails with NoCandidate if the database has no kernel, and
/// with the errors of build_schedule().
Result<Tuned> from_database(const TaskSpec& task, const Target& target, const TuneOptions& options,
                            db::Store& store, const Environment& environment);

}  // namespace tw::tuner
