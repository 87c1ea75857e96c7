// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the number of threads of each step of a model. A short step can be slower on several
// threads than on one, because waking threads and moving data between the caches of cores costs
// microseconds.
//
//   TW_TRY(const std::vector<int> limits, step_threads(model, clock, {.threads = 2}));
//   for (size_t i = 0; i < limits.size(); ++i)
//     if (limits[i] > 0) steps[i].threads = limits[i];
//
// A kernel that was compiled for several threads runs on one by doing its tasks in turn. Belongs to
// one thread.

#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/model.h"
#include "tuner/clock.h"
#include "tuner/race.h"

namespace tw::tuner {

/// Times of one step in two calls of a model, one after the other.
struct StepRound {
  double one_ns = 0;  ///< in the call on one thread
  double all_ns = 0;  ///< in the call on all threads
};

/// Whether a step is faster on one thread: the 99 % interval of the median of one_ns / all_ns lies
/// below 0.99, and there are enough rounds (least_rounds) to say so.
bool is_faster_on_one(std::span<const StepRound> rounds);

/// For each step of the model's first variant, 1 where it is faster on one thread than on
/// options.threads, else 0. Profiles calls on one and on all threads by turns, until the budget or
/// the rounds are used up; calls that something else on the machine disturbed do not count.
/// Interrupted where options.stop stopped it. Requires: options.threads > 1.
Result<std::vector<int>> step_threads(const runtime::Model& model, const Clock& clock,
                                      const RaceOptions& options);

}  // namespace tw::tuner
