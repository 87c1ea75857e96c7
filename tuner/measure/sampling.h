// SPDX-License-Identifier: Apache-2.0
#pragma once
// Estimates the latency of a kernel from timings, some of which are disturbed.
//
// Timings on a shared machine have one-sided noise: their 10th to 90th percentiles lie within 3-10
// % of the median, and pre-emption causes rare outliers of 2 to 4 times the median. So no mean or
// standard deviation is used. An estimate is the lower quartile, with an interval from order
// statistics. A comparison of two kernels times them by turns, and calls a difference real only if
// it exceeds the difference between equal kernels in the same comparison.
//
// A disturbance that lasts shifts all samples alike, so no statistic of the samples shows it. Each
// batch of calls is therefore timed under a Watch, and counts only if the watch does not object
// (watch.h). A candidate that seems to be slower than the incumbent (the fastest kernel so far) is
// called slow only if the incumbent, timed again at that moment, is as fast as before. If the
// incumbent is slower too, no timing of that moment counts.
//
//   const Timer timer = timed_by(clock, run);
//   Samples s = sample_beside({best_ns, best_timer}, timer, {}, clock, watch);
//   if (s.state == SampleState::Settled) ...
//   Comparison c = compare_abba(timer, best_timer, 15, {}, watch);
//   if (c.winner == Winner::A) ...                             // replaces the incumbent
//
// The timed kernel runs on the calling thread, or on a device with its own clock. The functions
// keep no state.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tuner/measure/watch.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Makes one call of the kernel on its buffers.
using Run = std::function<void()>;

/// Makes `calls` calls, one after the other, and returns the ns that they took together.
using Timer = std::function<int64_t(int64_t calls)>;

/// Returns a timer that calls `run` on the calling thread. It reads `clock` before the first and
/// after the last call.
Timer timed_by(const Clock& clock, const Run& run);

/// Returns a timer that calls `prepare` before each call of `run` and times each call of `run`
/// separately. The time of `prepare` and of reading the clock does not count.
Timer timed_singly(const Clock& clock, const Run& prepare, const Run& run);

struct Sampling {
  /// Calls are timed in batches that take at least this long, and at least 100 timer resolutions.
  int64_t min_batch_ns = 1'000'000;
  int64_t timer_resolution_ns = 100;
  /// Most calls in a batch. A kernel is too fast to be timed if a batch of this many calls takes
  /// less than 100 timer resolutions.
  int64_t max_batch_calls = int64_t{1} << 20;
  int min_samples = 9;
  int max_samples = 60;
  int64_t max_total_ns = 1'000'000'000;  ///< limit of the time spent on batches that count
  /// Limit of the time spent on batches that do not count, because the machine was disturbed.
  /// Sampling ends when the limit is reached.
  int64_t patience_ns = 1'000'000'000;
  /// Sampling ends when (width of the estimate's interval) / (estimate) is at most this number.
  double target_relative_interval = 0.02;
};

/// Returns `options` for timers of timed_singly(), with shorter batches, because `prepare` takes
/// far longer than a short call.
Sampling for_single_calls(Sampling options);

/// The latency of one call: the lower quartile of the samples in latency_ns, with the 95 % interval
/// from low_ns to high_ns.
struct Estimate {
  double latency_ns = 0;
  double low_ns = 0;
  double high_ns = 0;
  double min_ns = 0;
  double median_ns = 0;
  int samples = 0;

  double relative_interval() const { return latency_ns > 0 ? (high_ns - low_ns) / latency_ns : 0; }
};

/// Returns the estimate from these samples; all members are 0 if there are none.
Estimate estimate(std::vector<double> samples_ns);

/// Returns the estimate from samples that do not count because they were disturbed. Disturbances
/// only add time, by an unknown amount, so the interval is from 0 to the largest sample.
Estimate estimate_disturbed(std::vector<double> samples_ns);

enum class SampleState {
  Settled,    ///< the interval is narrow enough, or the kernel is clearly over 5 % slower than the
              ///< incumbent
  Noisy,      ///< the interval is too wide, but samples or time ran out
  Dropped,    ///< clearly slower than the incumbent, so sampling stopped early
  TooFast,    ///< too fast for the timer; there is no latency
  Disturbed,  ///< too few batches count; the estimate also uses those that do not
};

struct Samples {
  SampleState state = SampleState::Noisy;
  Estimate estimate;
  /// Time of one call in each batch that counts, in the order of the timings. If the state is
  /// Disturbed, it has all batches since samples were last discarded, whether they count or not.
  std::vector<double> raw_ns;
  int64_t calls_per_batch = 0;
  /// Text that says why the latest rejected batch did not count; empty if all batches count.
  std::string disturbance = {};
  /// Time of the incumbent when it was last timed beside these samples, divided by
  /// Incumbent::latency_ns. It is 1 if the incumbent was not timed, or if all its timings were
  /// disturbed.
  double incumbent_pace = 1;
};

/// The fastest kernel so far, with which a candidate is compared.
struct Incumbent {
  /// Latency that is expected of the incumbent at the present speed of the machine, without
  /// disturbances.
  double latency_ns = std::numeric_limits<double>::infinity();
  Timer timer = {};  ///< empty: the incumbent cannot be timed again
};

/// Measures a kernel: makes one warm-up call, then times batches until the estimate is precise
/// enough or a limit of `options` is reached (SampleState).
Samples sample(const Timer& timer, const Sampling& options, const Clock& clock, Watch& watch);

/// As sample(), but spends less time on kernels that are slower than the incumbent. Sampling stops
/// as soon as the candidate is clearly slower, and needs only few samples if the candidate is more
/// than 5 % slower. Before sampling ends for one of these two reasons, the incumbent is timed
/// again, and must be as fast as before. It is not timed again if its timer is empty, or if already
/// the first call of the candidate takes at least 0.25 s and more than ten times as long as the
/// incumbent.
Samples sample_beside(const Incumbent& incumbent, const Timer& timer, const Sampling& options,
                      const Clock& clock, Watch& watch);

/// Measures one kernel alone, for a latency that is reported to users. Calls sample() `stretches`
/// times, with a call of `pause` between two of them, and merges the samples of those stretches
/// whose latencies are within 3 % of the fastest. So a disturbance that no watch sees is noticed as
/// a difference between stretches. Requires: stretches >= 1.
Samples sample_spread(const Timer& timer, int stretches, const std::function<void()>& pause,
                      const Sampling& options, const Clock& clock, Watch& watch);

/// Returns the median. For an even number of values it is the larger of the two values in the
/// middle. Requires: at least one value.
double median(std::vector<double> values);

struct Interval {
  double low = 0, high = 0;
};

/// Returns the 99 % confidence interval of the median, for values of any distribution. With few
/// values an end of the interval is the smallest or the largest value. Requires: at least one
/// value.
Interval median_interval(std::vector<double> values);

enum class Winner { A, B, Tie };

struct Comparison {
  Winner winner = Winner::Tie;
  double ratio = 1;  ///< minimum time of B / minimum time of A; above 1, A is faster
  double low = 1;    ///< low and high: 99 % interval of the median of the rounds' ratios
  double high = 1;
  /// Noise of this comparison. The timings of each kernel are divided into two halves; the noise of
  /// the kernel is the relative difference between the minima of its halves. This is the larger
  /// noise of the two kernels, and at least 0.01.
  double noise_floor = 0;
  SampleState state = SampleState::Settled;  ///< TooFast or Disturbed if nothing was compared
};

/// Numbers of rounds for compare_abba(). A comparison with fewer than least_rounds rounds is a tie;
/// at the end of a tuning run, kernels are compared in most_rounds rounds if there is time.
inline constexpr int least_rounds = 7, most_rounds = 11;

/// Compares two kernels in `rounds` rounds, each of which times A, B, B, A. The ratio of a round is
/// the least time of B divided by that of A. A wins only if the 99 % interval of the ratios is
/// above 1, and the ratio exceeds 1 by more than the noise floor. B wins under the same conditions
/// with A and B exchanged. Otherwise, or if fewer than least_rounds rounds count, the result is a
/// tie. A round to which the watch objects is repeated, until 2 * rounds rounds have been timed. If
/// a round shows that batches have too few calls, because a pause was mistaken for their time when
/// the numbers of calls were chosen, all rounds are discarded and the numbers are chosen again, at
/// most three times; after that, such rounds do not count. Both kernels should run on the same
/// buffers: equal kernels on different buffers differ by 2-4 %, because of the placement of pages.
/// Requires: rounds >= 1.
Comparison compare_abba(const Timer& timer_a, const Timer& timer_b, int rounds,
                        const Sampling& options, Watch& watch);

}  // namespace tw::tuner
