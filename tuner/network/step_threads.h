// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses how the steps of a model use threads, by timing whole calls. A short step can be slower
// on several threads than on one, because waking threads and moving data between the caches of
// cores costs microseconds. Then steps that do not depend on each other can be faster side by side,
// each on one thread.
//
//   TW_TRY(const ThreadUse use, step_threads(model, clock, {.threads = 2}));
//   for (size_t i = 0; i < steps.size(); ++i)
//     if (use.limits[i] > 0) steps[i].threads = use.limits[i];
//
// A kernel that was compiled for several threads runs on one by doing its tasks in turn. Belongs to
// one thread.

#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/model.h"
#include "tuner/network/race.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Times of the same work done in two ways, one after the other.
struct TimePair {
  double a_ns = 0, b_ns = 0;
};

/// True if the first way is faster: the 99 % interval of the median of a_ns / b_ns lies below 0.99,
/// and there are at least least_rounds pairs.
bool is_first_faster(std::span<const TimePair> pairs);

/// The fastest use of threads by the first variant of a model.
struct ThreadUse {
  /// For each step, 1 if it is faster on one thread than on options.threads, else 0.
  std::vector<int> limits;
  /// For each band of the model, true if its steps are faster side by side than in order under
  /// these limits.
  std::vector<bool> side_by_side;
};

/// Profiles calls on one and on all threads, and side by side where the model has bands, by turns,
/// until the budget or the rounds are used up; calls that something else on the machine disturbed
/// do not count. Interrupted where options.stop stopped it. Requires: options.threads > 1.
Result<ThreadUse> step_threads(const runtime::Model& model, const Clock& clock,
                               const RaceOptions& options);

}  // namespace tw::tuner
