// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times two contenders in the order A B B A, so that a change of the machine's speed affects both.
//
// A turn is a batch of as many calls as fill min_batch_ns, after one call that is not timed. Every
// figure is the median over the rounds with a 95 % interval from order statistics, which a minimum
// would not have. Rounds that a watch rejects are repeated, as ten rounds may all lie in one period
// in which another process is busy. Processor contenders are timed on the calling thread, GPU
// contenders by their device's clock. The functions keep no state.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/peers/contender.h"
#include "tuner/measure/watch.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct Rounds {
  int rounds = 10;
  int64_t min_batch_ns = 2'000'000;
  int64_t most_calls = int64_t{1} << 22;  ///< largest number of calls of a batch
  /// Each call is timed alone, after prepare_call() has brought the caches into their state.
  bool prepares = false;
  /// Called before each change of contenders, to wait until the threads of the previous contender
  /// sleep. Empty: no wait.
  std::function<void()> between = {};
  /// Decides which rounds count; null: all do.
  tuner::Watch* watch = nullptr;
};

/// Median with a 95 % interval from order statistics.
struct Median {
  double value = 0, low = 0, high = 0;
};

struct Versus {
  /// Time of one call: the median over the rounds. A round's time is the mean of its two turns.
  Median a_ns, b_ns;
  Median ratio = {1, 1, 1};  ///< median over the rounds of B's time over A's; above 1, A is faster
  double a_least_ns = 0;     ///< time of one call in the fastest turn of A
  double b_least_ns = 0;     ///< time of one call in the fastest turn of B
  int rounds = 0;            ///< rounds that count
  std::string disturbance = {};  ///< why the latest rejected round did not count
};

/// Times two contenders by turns. Takes rounds until `rounds` of them count, but at most twice as
/// many rounds. If none counts, the figures are those of all rounds, and Versus::rounds is 0.
/// Returns the first error of a contender. Requires: rounds >= 1.
Result<Versus> interleave(Contender& a, Contender& b, const Rounds& options,
                          const tuner::Clock& clock);

/// Times of several contenders, which took turns.
struct Laps {
  /// For each contender, the time of one call in ns in every round that counts.
  std::vector<std::vector<double>> ns;
  int rounds = 0;                ///< rounds that count; 0: the times are those of all rounds
  std::string disturbance = {};  ///< why the latest rejected turn did not count
};

/// Times contenders whose calls take long, such as whole networks, in the order A B C C B A. A turn
/// that the watch rejects is taken again, up to four times; a round counts if each of its turns
/// does. A contender's time in a round is the mean of its two turns. The number of rounds is as in
/// interleave(). Returns the first error of a contender. Requires: at least one contender, rounds
/// >= 1.
Result<Laps> interleave_all(const std::vector<Contender*>& contenders, const Rounds& options,
                            const tuner::Clock& clock);

/// Time of one call of each contender: the minimum over `batches` batches, in which the contenders
/// take turns. For choosing among forms of one peer.
Result<std::vector<double>> fastest_calls(const std::vector<Contender*>& contenders, int batches,
                                          const Rounds& options, const tuner::Clock& clock);

/// The median of the values with its interval. Requires: `values` is not empty.
Median median_of(std::vector<double> values);

}  // namespace tw::bench
