// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times two contenders A and B in rounds of the order A B B A, so that a change of the machine's
// speed affects both.
//
// In its turn, a contender makes one call that is not timed, then a batch of calls that takes at
// least min_batch_ns. Every figure is a median over the rounds with a 95 % interval, whose limits
// are two of the sorted values. (For a minimum there is no such interval.) A watch may reject
// rounds, because another process disturbed them. Rejected rounds are repeated: a median of ten
// rounds does not help if a disturbance lasts longer than all ten. Contenders on the processor are
// timed on the calling thread, those on a GPU by the device's clock. The functions keep no state.

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

/// A median and the limits `low` and `high` of its 95 % interval. The limits are two of the sorted
/// values.
struct Median {
  double value = 0, low = 0, high = 0;
};

struct Versus {
  /// Time of one call of A and of B in ns. It is a median over the rounds; the time of a round is
  /// the mean of the contender's two turns.
  Median a_ns, b_ns;
  /// B's time divided by A's, the median over the rounds; above 1, A is faster
  Median ratio = {1, 1, 1};
  double a_least_ns = 0;         ///< time of one call in the fastest turn of A
  double b_least_ns = 0;         ///< time of one call in the fastest turn of B
  int rounds = 0;                ///< number of rounds that count
  std::string disturbance = {};  ///< reason why the latest rejected round did not count
};

/// Times two contenders by turns. Rounds are made until `options.rounds` of them count, but at most
/// twice as many. If no round counts, the figures are those of all rounds, and Versus::rounds is 0.
/// Fails with the first error of a contender. Requires: options.rounds >= 1.
Result<Versus> interleave(Contender& a, Contender& b, const Rounds& options,
                          const tuner::Clock& clock);

/// Times of several contenders that were timed by turns.
struct Laps {
  /// For each contender, the time of one call in ns, in every round that counts.
  std::vector<std::vector<double>> ns;
  /// Number of rounds that count; 0: the times are those of all rounds.
  int rounds = 0;
  std::string disturbance = {};  ///< reason why the latest rejected turn did not count
};

/// Times contenders whose calls take long, such as whole networks, in rounds of the order A B C C B
/// A. A turn that the watch rejects is repeated up to four times. A round counts if each of its
/// turns was accepted in the end. A contender's time in a round is the mean of its two turns.
/// Rounds are made until `options.rounds` of them count, but at most twice as many. Fails with the
/// first error of a contender. Requires: at least one contender, and options.rounds >= 1.
Result<Laps> interleave_all(const std::vector<Contender*>& contenders, const Rounds& options,
                            const tuner::Clock& clock);

/// Returns the time of one call of each contender in ns, in order. It is the minimum over `batches`
/// batches, in which the contenders take turns, and is precise enough to choose the fastest form of
/// a peer.
Result<std::vector<double>> fastest_calls(const std::vector<Contender*>& contenders, int batches,
                                          const Rounds& options, const tuner::Clock& clock);

/// Returns the median of the values with its 95 % interval. Requires: `values` is not empty.
Median median_of(std::vector<double> values);

}  // namespace tw::bench
