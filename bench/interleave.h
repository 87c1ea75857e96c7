// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two contenders timed in turn: A B B A, so that a change of the machine's speed meets both.
//
// A batch is as many calls as fill min_batch_ns, after one call that is not timed. Noise is
// one-sided (rare pre-emptions of 2-4 times), so what is compared are minima: between two copies of
// one kernel, ratios of minima over 10 rounds repeat to 0.3-0.9 % (1 sd) on a 2-core Zen 4 where
// ratios of medians repeat to 1-2.4 %. The interval around the median of the ratios says how steady
// the rounds were. Rounds that a watch objects to are repeated: ten rounds may fit into one episode
// in which a neighbour is busy. Times on the calling thread, or lets a GPU's contenders do so by
// their clock; keeps no state.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/contender.h"
#include "tuner/clock.h"
#include "tuner/watch.h"

namespace tw::bench {

struct Rounds {
  int rounds = 10;
  int64_t min_batch_ns = 2'000'000;
  int64_t most_calls = int64_t{1} << 22;  ///< of a batch
  /// Each call is timed alone, after prepare_call() has brought the caches into their state.
  bool prepares = false;
  /// Called whenever the other contender's turn comes: lets the threads of the one before fall
  /// asleep. Empty: nothing waits.
  std::function<void()> between = {};
  /// Decides which rounds count; null: all do.
  tuner::Watch* watch = nullptr;
};

struct Versus {
  double a_ns = 0, b_ns = 0;     ///< minima over batches, of one call
  double ratio = 1;              ///< b_ns / a_ns: above 1, A is faster
  double median_ratio = 1;       ///< of the rounds' ratios
  double low = 1, high = 1;      ///< 95 % interval of that median
  int rounds = 0;                ///< rounds that count
  std::string disturbance = {};  ///< why the latest rejected round did not count
};

/// Takes up to twice as many rounds as are wanted until so many count; where none does, all of them
/// are taken, and `rounds` says 0. Requires: rounds >= 1. The first error of a contender ends it.
Result<Versus> interleave(Contender& a, Contender& b, const Rounds& options,
                          const tuner::Clock& clock);

/// The minimum over `batches` of one call, each contender in turn; for choosing among variants.
Result<std::vector<double>> fastest_calls(const std::vector<Contender*>& contenders, int batches,
                                          const Rounds& options, const tuner::Clock& clock);

/// Median with a 95 % interval from order statistics. Requires: values.
struct Median {
  double value, low, high;
};
Median median_of(std::vector<double> values);

}  // namespace tw::bench
