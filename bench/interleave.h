// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times two contenders in rounds of the order A B B A, so that a change of the machine's speed
// affects both.
//
// In its turn, a contender makes one call that is not timed, then a batch of calls that takes at
// least min_batch_ns. Every figure is a median over the rounds, with a 95 % interval from order
// statistics; a minimum would have no such interval. A watch may reject rounds, because another
// process disturbed them. Rejected rounds are repeated: a median of ten rounds does not help if a
// disturbance lasts longer than all ten. Contenders on the processor are timed on the calling
// thread, those on a GPU by the device's clock. The functions keep no state.

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
  /// True to time each call by itself, after prepare_call() has brought the caches into their
  /// state.
  bool prepares = false;
  /// Called before each turn, to wait until the threads of the previous contender sleep. Empty:
  /// there is no wait.
  std::function<void()> between = {};
  /// Decides which rounds count. Null: all rounds count.
  tuner::Watch* watch = nullptr;
};

/// A median, and the limits of its 95 % interval, which come from order statistics.
struct Median {
  double value = 0, low = 0, high = 0;
};

struct Versus {
  /// Time of one call of A and of B: the median over the rounds. In each round it is the mean of
  /// the contender's two turns.
  Median a_ns, b_ns;
  Median ratio = {1, 1, 1};  ///< median over the rounds of B's time over A's; above 1, A is faster
  double a_least_ns = 0;     ///< time of one call in the fastest turn of A
  double b_least_ns = 0;     ///< time of one call in the fastest turn of B
  int rounds = 0;            ///< rounds that count
  std::string disturbance = {};  ///< why the latest rejected round did not count
};

/// Times two contenders by turns. It takes rounds until `options.rounds` of them count, but at most
/// twice as many. If no round counts, the figures are those of all rounds, and Versus::rounds is 0.
/// The first error of a contender is returned. Requires: options.rounds >= 1.
Result<Versus> interleave(Contender& a, Contender& b, const Rounds& options,
                          const tuner::Clock& clock);

/// Times of several contenders that were timed by turns.
struct Laps {
  /// The times of each contender: that of one call, in ns, in every round that counts.
  std::vector<std::vector<double>> ns;
  int rounds = 0;                ///< rounds that count; 0: the times are those of all rounds
  std::string disturbance = {};  ///< why the latest rejected turn did not count
};

/// Times contenders whose calls take long, such as whole networks, in rounds of the order A B C C B
/// A. A turn that the watch rejects is repeated up to four times; a round counts if no turn was
/// rejected every time. A contender's time in a round is the mean of its two turns. Rounds are
/// taken until `options.rounds` of them count, but at most twice as many. The first error of a
/// contender is returned. Requires: at least one contender, and options.rounds >= 1.
Result<Laps> interleave_all(const std::vector<Contender*>& contenders, const Rounds& options,
                            const tuner::Clock& clock);

/// Returns the time of one call of each contender, in order: the minimum over `batches` batches, in
/// which the contenders take turns. It is precise enough to choose the fastest form of a peer.
Result<std::vector<double>> fastest_calls(const std::vector<Contender*>& contenders, int batches,
                                          const Rounds& options, const tuner::Clock& clock);

/// Returns the median of the values with its 95 % interval. Requires: `values` is not empty.
Median median_of(std::vector<double> values);

}  // namespace tw::bench
