// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the number of threads of each step of a model, and the bands whose chains run side by
// side, by timing calls of the whole model. A short step can be slower on several threads than on
// one, because waking threads and moving data between the caches of cores takes microseconds.
// Independent short steps may be faster if they run side by side, each on one thread.
//
//   TW_TRY(const ThreadUse use, step_threads(model, clock, {.threads = 2}));
//   for (size_t i = 0; i < steps.size(); ++i)
//     if (use.limits[i] > 0) steps[i].threads = use.limits[i];
//
// A kernel that was compiled for several threads can run on one thread, which then does all tasks
// of the kernel one after another. Belongs to one thread.

#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/model.h"
#include "tuner/network/race.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Times of the same work done in two ways, one right after the other.
struct TimePair {
  double a_ns = 0, b_ns = 0;
};

/// True if the first way, which took a_ns, is clearly faster. There must be at least least_rounds
/// pairs, and the 99 % confidence interval of the median of a_ns / b_ns must lie below 0.99.
bool is_first_faster(std::span<const TimePair> pairs);

/// The fastest use of threads for the first variant of a model.
struct ThreadUse {
  /// For each step, 1 if the step is faster on one thread than on options.threads threads, else 0.
  std::vector<int> limits;
  /// For each band of the model, true if the band's steps are faster side by side than one after
  /// another, each with the threads that `limits` gives it.
  std::vector<bool> side_by_side;
};

/// Calls the model in up to three ways by turns: on one thread; on all threads; and, if it has
/// bands, with the bands side by side. A round has one call of each way and times its steps. Rounds
/// are made until options.budget_s or options.most_rounds is used up. Rounds that were disturbed do
/// not count. Fails with Interrupted if options.stop stopped the calls. Requires: options.threads >
/// 1.
Result<ThreadUse> step_threads(const runtime::Model& model, const Clock& clock,
                               const RaceOptions& options);

}  // namespace tw::tuner
