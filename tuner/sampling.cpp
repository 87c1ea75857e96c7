// SPDX-License-Identifier: Apache-2.0
#include "tuner/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/result.h"

namespace tw::tuner {
namespace {

/// The quantile that stands for a kernel. The minimum repeats best in a comparison of equally many
/// samples, but goes down with their number; the median moves by 1-2.4 % between sessions. A
/// quarter is near the undisturbed time and stays there until three quarters of the samples are
/// disturbed.
constexpr double estimate_quantile = 0.25;

/// A batch this many timer steps long is known to 1 %.
constexpr int64_t resolutions_per_batch = 100;

/// A first call may pay for page faults and cold caches, which cost a kernel up to a few times its
/// own time; ten times is hopeless.
constexpr double hopeless_first_call = 10;
/// Undisturbed timings stay within 1.1 of each other, so 1.5 is behind.
constexpr double hopeless_probe = 1.5;
/// Unless it was pre-empted, which costs a time slice or two, whatever the kernel takes: calls of
/// 0.2 ms were seen to last 20 ms on a busy machine, and every second fast kernel was dropped for
/// it. What such a pause explains is timed again, a few times at most.
constexpr double preemption_ns = 50e6;
constexpr int most_probes = 4;
/// The best of so many samples is disturbed with a probability below 1e-4 on a quiet machine, and
/// of 0.5 % where every third sample is.
constexpr double hopeless_minimum = 1.25;
constexpr size_t minimum_counts_from = 5;
/// Who is behind by so much will not win the finals: a coarser estimate is all that the model
/// needs.
constexpr double behind = 1.05;

/// Differences below 1 % are never claimed: ratios of minima repeat to 0.3-0.9 % (one sigma).
constexpr double least_noise_floor = 0.01;

struct Interval {
  double low, high;
};

/// Distribution-free interval for a quantile: how many samples lie below it is binomial. With too
/// few samples for the tails, an end is the minimum or maximum.
Interval quantile_interval(const std::vector<double>& sorted, double quantile, double tail) {
  const auto n = static_cast<double>(sorted.size());
  size_t low = 0, high = sorted.size() - 1;
  double cumulative = 0;
  for (size_t k = 0; k < sorted.size(); ++k) {
    const auto x = static_cast<double>(k);
    cumulative += std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) +
                           x * std::log(quantile) + (n - x) * std::log1p(-quantile));
    if (cumulative <= tail) low = k;
    if (cumulative >= 1 - tail) {
      high = std::min(high, k);
      break;
    }
  }
  return {sorted[low], sorted[high]};
}

double quantile_of(const std::vector<double>& sorted, double quantile) {
  const double at = quantile * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double time_batch(const Timer& timer, int64_t calls) {
  return static_cast<double>(timer(calls)) / static_cast<double>(calls);
}

struct Batch {
  int64_t calls = 1;
  int64_t elapsed_ns = 0;  ///< of those calls, when they were tried
  bool too_fast = false;
  double probe_ns() const { return static_cast<double>(elapsed_ns) / static_cast<double>(calls); }
};

/// How many calls make a batch long enough.
Batch fit_batch(const Timer& timer, const Sampling& options) {
  const int64_t readable_ns = resolutions_per_batch * options.timer_resolution_ns;
  const int64_t wanted_ns = std::max(options.min_batch_ns, readable_ns);
  Batch batch;
  for (;;) {
    batch.elapsed_ns = timer(batch.calls);
    if (batch.elapsed_ns >= wanted_ns) return batch;
    if (batch.calls >= options.max_batch_calls) break;
    // A fifth more than seems needed, for the next batch may be faster; at most ten times, for the
    // measured one may have been shorter than the timer can see.
    const double growth = batch.elapsed_ns > 0 ? 1.2 * static_cast<double>(wanted_ns) /
                                                     static_cast<double>(batch.elapsed_ns)
                                               : 10;
    const double calls =
        std::ceil(static_cast<double>(batch.calls) * std::clamp(growth, 1.2, 10.0));
    batch.calls = std::min(static_cast<int64_t>(calls), options.max_batch_calls);
  }
  batch.too_fast = batch.elapsed_ns < std::max<int64_t>(readable_ns, 1);
  return batch;
}

/// Adds timings of the batch to `raw_ns`, which holds one, until one is below the limit or no pause
/// explains that none is; whether one is.
bool probe_until_below(double limit_ns, const Timer& timer, int64_t calls,
                       std::vector<double>& raw_ns) {
  const double pause_ns = preemption_ns / static_cast<double>(calls);
  while (raw_ns.back() > limit_ns) {
    if (raw_ns.size() >= most_probes || raw_ns.back() - pause_ns > limit_ns) return false;
    raw_ns.push_back(time_batch(timer, calls));
  }
  return true;
}

Samples ended(SampleState state, std::vector<double> raw_ns, int64_t calls) {
  Samples samples;
  samples.state = state;
  samples.calls_per_batch = calls;
  samples.estimate = estimate(raw_ns);
  samples.raw_ns = std::move(raw_ns);
  return samples;
}

/// Times one slot for each side, in the order A B B A.
struct Round {
  std::array<double, 2> a, b;
};

Round time_round(const Timer& a, int64_t calls_a, const Timer& b, int64_t calls_b) {
  Round round;
  round.a[0] = time_batch(a, calls_a);
  round.b[0] = time_batch(b, calls_b);
  round.b[1] = time_batch(b, calls_b);
  round.a[1] = time_batch(a, calls_a);
  return round;
}

/// The same estimator on two interleaved halves of one side: what it gives for equal kernels.
class SelfRatio {
 public:
  void add(int round, const std::array<double, 2>& slots) {
    const auto parity = static_cast<size_t>(round % 2);
    halves_[parity] = std::min(halves_[parity], slots[0]);
    halves_[1 - parity] = std::min(halves_[1 - parity], slots[1]);
  }
  double best() const { return std::min(halves_[0], halves_[1]); }
  double noise() const { return std::max(halves_[0], halves_[1]) / best() - 1; }

 private:
  std::array<double, 2> halves_ = {std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::infinity()};
};

Winner verdict(const Comparison& c) {
  if (c.low > 1 && c.ratio > 1 + c.noise_floor) return Winner::A;
  if (c.high < 1 && 1 / c.ratio > 1 + c.noise_floor) return Winner::B;
  return Winner::Tie;
}

}  // namespace

Estimate estimate(std::vector<double> samples_ns) {
  if (samples_ns.empty()) return {};
  std::sort(samples_ns.begin(), samples_ns.end());
  const Interval interval = quantile_interval(samples_ns, estimate_quantile, 0.025);
  Estimate e;
  e.latency_ns = quantile_of(samples_ns, estimate_quantile);
  e.low_ns = std::min(interval.low, e.latency_ns);
  e.high_ns = std::max(interval.high, e.latency_ns);
  e.min_ns = samples_ns.front();
  e.median_ns = quantile_of(samples_ns, 0.5);
  e.samples = static_cast<int>(samples_ns.size());
  return e;
}

int64_t timer_resolution_ns(const Clock& clock) {
  int64_t smallest = 0;
  int steps = 0;
  int64_t last = clock();
  // Enough steps to meet a pair of reads without anything between them; enough reads for a timer
  // that moves once in 10 ms.
  for (int reads = 0; reads < 1'000'000 && steps < 50; ++reads) {
    const int64_t now = clock();
    if (now <= last) continue;
    smallest = smallest == 0 ? now - last : std::min(smallest, now - last);
    last = now;
    ++steps;
  }
  return smallest;
}

Timer timed_by(const Clock& clock, const Run& run) {
  return [clock, run](int64_t calls) {
    const int64_t start = clock();
    for (int64_t i = 0; i < calls; ++i) run();
    return clock() - start;
  };
}

Samples sample(const Timer& timer, const Sampling& options, const Clock& clock) {
  return sample_until(timer, std::numeric_limits<double>::infinity(), options, clock);
}

Samples sample_until(const Timer& timer, double incumbent_ns, const Sampling& options,
                     const Clock& clock) {
  const int64_t start_ns = clock();
  std::vector<double> first = {time_batch(timer, 1)};
  if (!probe_until_below(hopeless_first_call * incumbent_ns, timer, 1, first))
    return ended(SampleState::Dropped, std::move(first), 1);

  const Batch batch = fit_batch(timer, options);
  if (batch.too_fast) return ended(SampleState::TooFast, {}, batch.calls);
  std::vector<double> raw = {batch.probe_ns()};
  if (!probe_until_below(hopeless_probe * incumbent_ns, timer, batch.calls, raw))
    return ended(SampleState::Dropped, std::move(raw), batch.calls);

  double best_ns = *std::min_element(raw.begin(), raw.end());
  const auto least = static_cast<size_t>(options.min_samples);
  while (raw.size() < static_cast<size_t>(options.max_samples) &&
         clock() - start_ns < options.max_total_ns) {
    raw.push_back(time_batch(timer, batch.calls));
    best_ns = std::min(best_ns, raw.back());
    if (raw.size() >= minimum_counts_from && best_ns > hopeless_minimum * incumbent_ns)
      return ended(SampleState::Dropped, std::move(raw), batch.calls);
    if (raw.size() >= minimum_counts_from && best_ns > behind * incumbent_ns)
      return ended(SampleState::Settled, std::move(raw), batch.calls);
    if (raw.size() >= least &&
        estimate(raw).relative_interval() <= options.target_relative_interval)
      return ended(SampleState::Settled, std::move(raw), batch.calls);
  }
  return ended(SampleState::Noisy, std::move(raw), batch.calls);
}

Comparison compare_abba(const Timer& timer_a, const Timer& timer_b, int rounds,
                        const Sampling& options) {
  TW_CHECK(rounds > 0);
  Comparison c;
  timer_a(1);
  timer_b(1);
  const Batch a = fit_batch(timer_a, options);
  const Batch b = fit_batch(timer_b, options);
  if (a.too_fast || b.too_fast) {
    c.state = SampleState::TooFast;
    return c;
  }
  SelfRatio self_a, self_b;
  std::vector<double> ratios;
  for (int i = 0; i < rounds; ++i) {
    const Round round = time_round(timer_a, a.calls, timer_b, b.calls);
    self_a.add(i, round.a);
    self_b.add(i, round.b);
    ratios.push_back(std::min(round.b[0], round.b[1]) / std::min(round.a[0], round.a[1]));
  }
  std::sort(ratios.begin(), ratios.end());
  const Interval interval = quantile_interval(ratios, 0.5, 0.005);
  c.ratio = self_b.best() / self_a.best();
  c.low = interval.low;
  c.high = interval.high;
  c.noise_floor = std::max({least_noise_floor, self_a.noise(), self_b.noise()});
  c.winner = rounds < least_rounds ? Winner::Tie : verdict(c);
  return c;
}

}  // namespace tw::tuner
