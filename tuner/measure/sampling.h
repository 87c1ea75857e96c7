// SPDX-License-Identifier: Apache-2.0
#pragma once
// Estimates how long a kernel takes, from timings that are disturbed now and then.
//
// Timings on a shared machine have one-sided noise: p10-p90 within 3-10 % of the middle, and rare
// outliers of 2-4 times from pre-emption. So nothing here is a mean or a standard deviation: an
// estimate is a low quantile with an order-statistic interval, and a comparison is interleaved,
// with the session's own A/A noise as the least difference it will call real.
//
// A disturbance that lasts shifts all samples alike, so that no statistic of them shows it. Each
// batch is therefore timed under a Watch, and counts unless the watch objects (watch.h). A
// candidate is called slow only if the incumbent, timed again at that moment, is not: where the
// incumbent is slow too, nothing of that moment counts.
//
//   const Timer timer = timed_by(clock, run);
//   Samples s = sample_beside({best_ns, best_timer}, timer, {}, clock, watch);
//   if (s.state == SampleState::Settled) ...
//   Comparison c = compare_abba(timer, best_timer, 15, {}, watch);
//   if (c.winner == Winner::A) ...                             // replaces the incumbent
//
// What is timed runs on the calling thread or on a device with a clock of its own. The functions
// keep no state.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tuner/measure/watch.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// One call of the kernel, with its buffers as the workload sees them.
using Run = std::function<void()>;

/// Makes that many calls, one after the other, and returns the ns that they took together.
using Timer = std::function<int64_t(int64_t calls)>;

/// Times calls on this thread by this clock.
Timer timed_by(const Clock& clock, const Run& run);

/// Times each call by itself, after `prepare`, whose time does not count; nor does that of reading
/// the clock.
Timer timed_singly(const Clock& clock, const Run& prepare, const Run& run);

struct Sampling {
  /// Calls are timed in batches at least this long, and at least 100 timer resolutions.
  int64_t min_batch_ns = 1'000'000;
  int64_t timer_resolution_ns = 100;
  /// A kernel is too fast to be timed if this many calls do not fill a batch.
  int64_t max_batch_calls = int64_t{1} << 20;
  int min_samples = 9;
  int max_samples = 60;
  int64_t max_total_ns = 1'000'000'000;  ///< limit of the time spent on batches that count
  /// Time spent on batches that do not count, after which the sampling ends.
  int64_t patience_ns = 1'000'000'000;
  /// Sampling ends when the estimate's interval is this small in relation to it.
  double target_relative_interval = 0.02;
};

/// Options for timed_singly(): batches are short, as preparing takes far longer than a short call.
Sampling for_single_calls(Sampling options);

/// Lower-quartile latency of one call with its 95 % interval.
struct Estimate {
  double latency_ns = 0;
  double low_ns = 0;
  double high_ns = 0;
  double min_ns = 0;
  double median_ns = 0;
  int samples = 0;

  double relative_interval() const { return latency_ns > 0 ? (high_ns - low_ns) / latency_ns : 0; }
};

/// All zeros without samples.
Estimate estimate(std::vector<double> samples_ns);

/// The same of samples that do not count. Disturbances only add time, and nobody knows how much:
/// the interval is from 0 to the largest sample.
Estimate estimate_disturbed(std::vector<double> samples_ns);

enum class SampleState {
  Settled,    ///< the interval is as small as wanted, or the kernel is behind the incumbent
  Noisy,      ///< the interval is wider, and samples or time ran out
  Dropped,    ///< clearly slower than the incumbent
  TooFast,    ///< below what the timer can tell: no latency is claimed
  Disturbed,  ///< too few batches count: the estimate is of those that do not
};

struct Samples {
  SampleState state = SampleState::Noisy;
  Estimate estimate;
  /// Time of one call in each batch that counts, in the order taken; where the state is Disturbed,
  /// in each of the latest batches, though they do not count.
  std::vector<double> raw_ns;
  int64_t calls_per_batch = 0;
  std::string disturbance = {};  ///< why the latest rejected batch did not count; empty: all count
  /// Time of the incumbent when it was last timed beside these samples, relative to the latency
  /// that it was said to have. 1 where it was not timed undisturbed.
  double incumbent_pace = 1;
};

/// The fastest kernel so far, beside which a candidate is judged.
struct Incumbent {
  double latency_ns = std::numeric_limits<double>::infinity();  ///< expected now, undisturbed
  Timer timer = {};                                             ///< empty: it is not timed again
};

/// The smallest step of the clock; 0 if it never moves while read.
int64_t timer_resolution_ns(const Clock& clock);

/// One warm-up call, then batches until settled.
Samples sample(const Timer& timer, const Sampling& options, const Clock& clock, Watch& watch);

/// Like sample(), but stops as soon as the candidate is clearly slower than the incumbent, and
/// settles for a few samples where it is 5 % slower. Either happens only if the incumbent, timed
/// again at that moment, is as fast as before.
Samples sample_beside(const Incumbent& incumbent, const Timer& timer, const Sampling& options,
                      const Clock& clock, Watch& watch);

/// Measures one kernel alone, where the latency is to be quoted: calls sample() several times with
/// pauses in between and uses the stretches that agree with the fastest. A disturbance that no
/// watch sees shows as a difference between the stretches. Requires: stretches >= 1.
Samples sample_spread(const Timer& timer, int stretches, const std::function<void()>& pause,
                      const Sampling& options, const Clock& clock, Watch& watch);

/// The median; the larger of the middle two if the number of values is even. Requires: at least one
/// value.
double median(std::vector<double> values);

struct Interval {
  double low = 0, high = 0;
};

/// 99 % interval of the median, which assumes no distribution; with few values an end is the
/// smallest or the largest. Requires: at least one value.
Interval median_interval(std::vector<double> values);

enum class Winner { A, B, Tie };

struct Comparison {
  Winner winner = Winner::Tie;
  double ratio = 1;  ///< minimum time of B / minimum time of A: above 1, A is faster
  double low = 1;    ///< 99 % interval of the median of the rounds' ratios
  double high = 1;
  double noise_floor = 0;  ///< relative difference of A from A and B from B in the same session
  SampleState state = SampleState::Settled;  ///< TooFast, Disturbed: nothing was compared
};

/// Rounds of a comparison: fewer than least_rounds give no verdict; finals with enough time take
/// most_rounds.
inline constexpr int least_rounds = 7, most_rounds = 11;

/// Times A B B A, `rounds` times; with fewer than least_rounds that count it is a tie. A wins only
/// if the interval excludes 1 and the ratio exceeds the noise floor. Rounds to which the watch
/// objects are repeated, until 2 * rounds have been taken. Both should run on the same buffers:
/// page placement alone makes a difference of 2-4 % between equal kernels on different ones.
/// Requires: rounds >= 1.
Comparison compare_abba(const Timer& timer_a, const Timer& timer_b, int rounds,
                        const Sampling& options, Watch& watch);

}  // namespace tw::tuner
