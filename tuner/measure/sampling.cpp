// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "base/result.h"

namespace tw::tuner {
namespace {

/// The quantile of the samples that is used as the latency of a kernel. The minimum repeats best if
/// the numbers of samples are equal, but it decreases as their number grows. The median moves by
/// 1-2.4 % between sessions. The lower quartile is near the undisturbed time, and stays near it
/// until three quarters of the samples are disturbed.
constexpr double estimate_quantile = 0.25;

/// The time of a batch is known to 1 % if the batch lasts this many steps of the timer.
constexpr int64_t resolutions_per_batch = 100;

/// A candidate is dropped after its first call if the call takes more than drop_first_call times
/// the incumbent's latency and at least warms_itself_ns. A first call may include page faults and
/// cold caches, which cost a few times the kernel's own time, but are negligible in calls that
/// long.
constexpr double drop_first_call = 10;
constexpr double warms_itself_ns = 0.25e9;
/// A candidate whose timings are all above this multiple of the incumbent's latency is dropped.
/// Undisturbed timings differ by at most a factor of 1.1.
constexpr double drop_probe = 1.5;
/// Length of a pause that no watch notices. A hypervisor that takes the processor away costs a time
/// slice or two, however short the kernel is: calls of 0.2 ms were seen to last 20 ms. If such a
/// pause could explain the timings of a candidate that seems slow, the candidate is timed again,
/// until there are most_probes timings.
constexpr double preemption_ns = 50e6;
constexpr size_t least_probes = 2, most_probes = 4;
/// A candidate is dropped if it has at least minimum_counts_from samples and their minimum is above
/// this multiple of the incumbent's latency. On a quiet machine the minimum of so many samples is
/// disturbed with a probability below 1e-4; if every third sample is disturbed, with one of 0.5 %.
constexpr double drop_minimum = 1.25;
constexpr size_t minimum_counts_from = 5;
/// A candidate that is slower than the incumbent by this factor will not be the result of the run,
/// and the cost model needs no more precise latency of it.
constexpr double behind = 1.05;

/// The machine counts as being as fast as before if the incumbent takes at most this multiple of
/// its latency. Timings of one kernel in different buffers differ by 2-4 %.
constexpr double keeps_pace = 1.08;
constexpr int incumbent_batches = 3;

/// Stretches of a measurement agree if their latencies are within this factor of the fastest.
constexpr double agrees = 1.03;

/// Least noise floor of a comparison, because ratios of minima repeat to 0.3-0.9 % (one sigma).
constexpr double least_noise_floor = 0.01;

/// Returns the confidence interval for a quantile, without assumptions about the distribution of
/// the samples: the number of samples below the quantile has a binomial distribution. `tail` is the
/// probability on each side of the interval. With too few samples, an end of the interval is the
/// minimum or the maximum.
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

// Least time of a batch whose calls are timed one by one. Preparing one call takes 0.1 ms if L2 has
// 1 MiB.
constexpr int64_t single_calls_ns = 50'000;

double time_batch(const Timer& timer, int64_t calls) {
  return static_cast<double>(timer(calls)) / static_cast<double>(calls);
}

struct TimedBatch {
  int64_t calls = 1;
  int64_t elapsed_ns = 0;  ///< time that `calls` calls took together in the last attempt
  bool too_fast = false;
  double probe_ns() const { return static_cast<double>(elapsed_ns) / static_cast<double>(calls); }
};

/// The least time of a batch that the timer can read with enough digits.
int64_t readable_ns(const Sampling& options) {
  return resolutions_per_batch * options.timer_resolution_ns;
}

/// The time that a batch should take at least.
int64_t wanted_ns(const Sampling& options) {
  return std::max(options.min_batch_ns, readable_ns(options));
}

/// Number of times that a comparison may choose the numbers of calls of its batches anew.
constexpr int most_fits = 3;

/// True if a batch took less than half of the time for which its number of calls was chosen. Then a
/// pause of the thread was taken for the time of calls when the number was chosen.
bool is_too_short(double call_ns, int64_t calls, const Sampling& options) {
  return call_ns * static_cast<double>(calls) < 0.5 * static_cast<double>(wanted_ns(options)) &&
         calls < options.max_batch_calls;
}

/// Finds the number of calls in a batch: increases it until a batch takes long enough to be timed,
/// or until it is options.max_batch_calls.
TimedBatch fit_batch(const Timer& timer, const Sampling& options) {
  TimedBatch batch;
  for (;;) {
    batch.elapsed_ns = timer(batch.calls);
    if (batch.elapsed_ns >= wanted_ns(options)) return batch;
    if (batch.calls >= options.max_batch_calls) break;
    // Makes a fifth more calls than seem to be needed, because the next batch may be faster. Makes
    // at most ten times as many, because the batch may have been shorter than a step of the timer.
    const double growth = batch.elapsed_ns > 0 ? 1.2 * static_cast<double>(wanted_ns(options)) /
                                                     static_cast<double>(batch.elapsed_ns)
                                               : 10;
    const double calls =
        std::ceil(static_cast<double>(batch.calls) * std::clamp(growth, 1.2, 10.0));
    batch.calls = std::min(static_cast<int64_t>(calls), options.max_batch_calls);
  }
  batch.too_fast = batch.elapsed_ns < std::max<int64_t>(readable_ns(options), 1);
  return batch;
}

Estimate estimate_as(SampleState state, std::vector<double> samples_ns) {
  return state == SampleState::Disturbed ? estimate_disturbed(std::move(samples_ns))
                                         : estimate(std::move(samples_ns));
}

/// The timings of one kernel under a watch, and the time spent on them.
class Sampler {
 public:
  Sampler(const Timer& timer, const Sampling& options, const Clock& clock, Watch& watch)
      : timer_(timer), options_(options), clock_(clock), watch_(watch), start_ns_(clock()) {}

  /// Times `calls` calls together, and returns the time of one call in ns.
  double time(int64_t calls) {
    const int64_t started_ns = clock_();
    const int64_t elapsed_ns = watched(calls);
    bursts_.push_back({static_cast<double>(elapsed_ns) / static_cast<double>(calls), moment_});
    if (const auto objection = watch_.objection(moment_)) {
      lost_ns_ += clock_() - started_ns;
      disturbed(*objection);
    }
    return bursts_.back().ns;
  }

  /// Chooses the number of calls in a batch, and keeps the first batch that is long enough as the
  /// only sample. Returns false if no batch is long enough.
  bool fit() {
    const TimedBatch batch = fit_batch([this](int64_t calls) { return watched(calls); }, options_);
    calls_ = batch.calls;
    if (!batch.too_fast) bursts_ = {{batch.probe_ns(), moment_}};
    return !batch.too_fast;
  }
  /// Adds a sample. If it shows that the batches have too few calls, all samples are discarded and
  /// the number of calls is chosen again. Returns false if no batch is long enough.
  bool batch() { return !is_too_short(time(calls_), calls_, options_) || fit(); }
  int64_t calls() const { return calls_; }

  /// Returns the samples to which the watch does not object by now, in the order of their timings.
  std::vector<double> counted() const {
    std::vector<double> counted;
    for (const Burst& burst : bursts_)
      if (!watch_.objection(burst.moment)) counted.push_back(burst.ns);
    return counted;
  }

  /// Discards all samples, because the machine was slow when they were taken. `why` says what
  /// showed that.
  void discard(std::string why) {
    bursts_.clear();
    lost_ns_ = clock_() - start_ns_;
    disturbed(std::move(why));
  }

  /// Rests if a timing was disturbed since the last call.
  void recover() {
    if (!std::exchange(is_disturbed_, false)) return;
    const int64_t started_ns = clock_();
    watch_.rest();
    lost_ns_ += clock_() - started_ns;
  }
  bool out_of_patience() const { return lost_ns_ >= options_.patience_ns; }
  bool out_of_time() const { return clock_() - start_ns_ - lost_ns_ >= options_.max_total_ns; }

  /// Returns the result of a sampling that has lost all its patience (Sampling::patience_ns) to
  /// disturbed batches.
  Samples ended_disturbed() const {
    std::vector<double> all;
    for (const Burst& burst : bursts_) all.push_back(burst.ns);
    return ended(SampleState::Disturbed, std::move(all));
  }

  Samples ended(SampleState state, std::vector<double> raw_ns) const {
    Samples samples;
    samples.state = state;
    samples.calls_per_batch = calls_;
    samples.estimate = estimate_as(state, raw_ns);
    samples.raw_ns = std::move(raw_ns);
    samples.disturbance = disturbance_;
    return samples;
  }

 private:
  struct Burst {
    double ns;  ///< time of one call
    Moment moment;
  };

  int64_t watched(int64_t calls) {
    watch_.begin();
    const int64_t elapsed_ns = timer_(calls);
    moment_ = watch_.end();
    return elapsed_ns;
  }
  void disturbed(std::string why) {
    disturbance_ = std::move(why);
    is_disturbed_ = true;
  }

  const Timer& timer_;
  const Sampling& options_;
  const Clock& clock_;
  Watch& watch_;
  std::vector<Burst> bursts_;
  Moment moment_;  ///< readings of the watch for the latest timing
  int64_t calls_ = 1;
  int64_t start_ns_;
  int64_t lost_ns_ = 0;        ///< time spent on samples that do not count
  bool is_disturbed_ = false;  ///< true if a timing was disturbed since the last recover()
  std::string disturbance_;    ///< why the latest rejected timing did not count
};

double least(std::span<const double> values) {
  return values.empty() ? std::numeric_limits<double>::infinity()
                        : *std::min_element(values.begin(), values.end());
}

/// True if all samples are above the limit, there are at least least_probes of them, and pauses
/// cannot be the reason. Pauses cannot be the reason if a single pause of preemption_ns in each
/// batch would not explain the samples, or if there are at least most_probes samples.
bool all_above(const std::vector<double>& samples_ns, double limit_ns, int64_t calls) {
  if (samples_ns.size() < least_probes || least(samples_ns) <= limit_ns) return false;
  const double pause_ns = preemption_ns / static_cast<double>(calls);
  return samples_ns.size() >= most_probes || least(samples_ns) - pause_ns > limit_ns;
}

/// Returns the state with which the sampling of a candidate ends because of the incumbent; nullopt
/// while the samples allow no decision.
std::optional<SampleState> judged(const std::vector<double>& samples_ns, double incumbent_ns,
                                  int64_t calls) {
  if (all_above(samples_ns, drop_probe * incumbent_ns, calls)) return SampleState::Dropped;
  if (samples_ns.size() < minimum_counts_from) return std::nullopt;
  if (least(samples_ns) > drop_minimum * incumbent_ns) return SampleState::Dropped;
  if (least(samples_ns) > behind * incumbent_ns) return SampleState::Settled;
  return std::nullopt;
}

/// Times the incumbent now, in up to incumbent_batches batches. Returns its time divided by its
/// expected latency. If the result is above keeps_pace, timings that were taken at this moment do
/// not count. The result is infinite if all timings of the incumbent were disturbed, and nullopt if
/// the incumbent has no timer.
std::optional<double> pace_of(const Incumbent& incumbent, const Sampling& options, Watch& watch) {
  if (!incumbent.timer) return std::nullopt;
  const auto calls = static_cast<int64_t>(
      std::max(1.0, std::ceil(static_cast<double>(options.min_batch_ns) / incumbent.latency_ns)));
  double pace = std::numeric_limits<double>::infinity();
  incumbent.timer(1);  // warms the caches, which hold the data of another kernel
  for (int i = 0; i < incumbent_batches && pace > keeps_pace; ++i) {
    watch.begin();
    const double ns = time_batch(incumbent.timer, calls);
    if (!watch.objection(watch.end())) pace = std::min(pace, ns / incumbent.latency_ns);
  }
  return pace;
}

std::string say_slower(double pace) {
  if (std::isinf(pace)) return "the fastest kernel so far could not be timed undisturbed";
  return fmt::format("the fastest kernel so far took {:.2f} times as long as before", pace);
}

/// The times of A and B in one round, which times A, B, B, A.
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

/// Estimates by how much the ratio of two equal kernels differs from 1. The timings of one kernel
/// are put into two halves by turns, and the minima of the halves are compared.
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

/// Returns the time between two consecutive reads of the clock. It is the least of several times,
/// because an interrupt may lie between any two reads.
int64_t time_of_reading_ns(const Clock& clock) {
  constexpr int reads = 32;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < reads; ++i) {
    const int64_t start = clock();
    least = std::min(least, clock() - start);
  }
  return least;
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

Estimate estimate_disturbed(std::vector<double> samples_ns) {
  Estimate e = estimate(samples_ns);
  e.low_ns = 0;
  if (!samples_ns.empty()) e.high_ns = *std::max_element(samples_ns.begin(), samples_ns.end());
  return e;
}

Timer timed_by(const Clock& clock, const Run& run) {
  return [clock, run](int64_t calls) {
    const int64_t start = clock();
    for (int64_t i = 0; i < calls; ++i) run();
    return clock() - start;
  };
}

Timer timed_singly(const Clock& clock, const Run& prepare, const Run& run) {
  const int64_t reading_ns = time_of_reading_ns(clock);
  return [clock, prepare, run, reading_ns](int64_t calls) {
    int64_t elapsed_ns = 0;
    for (int64_t i = 0; i < calls; ++i) {
      prepare();
      const int64_t start = clock();
      run();
      elapsed_ns += std::max<int64_t>(clock() - start - reading_ns, 0);
    }
    return elapsed_ns;
  };
}

Sampling for_single_calls(Sampling options) {
  options.min_batch_ns = single_calls_ns;
  return options;
}

Samples sample(const Timer& timer, const Sampling& options, const Clock& clock, Watch& watch) {
  return sample_beside({}, timer, options, clock, watch);
}

Samples sample_beside(const Incumbent& incumbent, const Timer& timer, const Sampling& options,
                      const Clock& clock, Watch& watch) {
  const double limit_ns = drop_first_call * incumbent.latency_ns;
  Sampler sampler(timer, options, clock, watch);
  const double first_ns = sampler.time(1);
  const bool is_far_behind = first_ns - preemption_ns > limit_ns && first_ns >= warms_itself_ns;
  if (is_far_behind && !sampler.counted().empty())
    return sampler.ended(SampleState::Dropped, sampler.counted());
  if (!sampler.fit()) return sampler.ended(SampleState::TooFast, {});
  std::optional<double> pace;
  const auto with_pace = [&](Samples samples) {
    if (pace && std::isfinite(*pace)) samples.incumbent_pace = *pace;
    return samples;
  };
  const auto ended = [&](SampleState state, std::vector<double> counted) {
    return with_pace(sampler.ended(state, std::move(counted)));
  };
  while (true) {
    std::vector<double> counted = sampler.counted();
    if (const auto state = judged(counted, incumbent.latency_ns, sampler.calls())) {
      pace = pace_of(incumbent, options, watch);
      if (!pace) return ended(*state, std::move(counted));
      if (*pace > keeps_pace) {
        sampler.discard(say_slower(*pace));
      } else {
        // A disturbance may have slowed the candidate and ended right before the incumbent was
        // timed.
        const double before_ns = least(counted);
        if (!sampler.batch()) return sampler.ended(SampleState::TooFast, {});
        counted = sampler.counted();
        if (least(counted) * keeps_pace < before_ns)
          sampler.discard("the machine was slower a moment before");
        else if (const auto again = judged(counted, incumbent.latency_ns, sampler.calls()))
          return ended(*again, std::move(counted));
      }
    } else if (counted.size() >= static_cast<size_t>(options.min_samples) &&
               estimate(counted).relative_interval() <= options.target_relative_interval) {
      return ended(SampleState::Settled, std::move(counted));
    } else if (!counted.empty() && (counted.size() >= static_cast<size_t>(options.max_samples) ||
                                    sampler.out_of_time())) {
      return ended(SampleState::Noisy, std::move(counted));
    }
    if (sampler.out_of_patience()) {
      counted = sampler.counted();
      return counted.size() < minimum_counts_from ? with_pace(sampler.ended_disturbed())
                                                  : ended(SampleState::Noisy, std::move(counted));
    }
    sampler.recover();
    if (!sampler.batch()) return sampler.ended(SampleState::TooFast, {});
  }
}

Samples sample_spread(const Timer& timer, int stretches, const std::function<void()>& pause,
                      const Sampling& options, const Clock& clock, Watch& watch) {
  TW_CHECK(stretches > 0);
  std::vector<Samples> taken;
  for (int i = 0; i < stretches; ++i) {
    if (i > 0) pause();
    taken.push_back(sample(timer, options, clock, watch));
    if (taken.back().state == SampleState::TooFast) return taken.back();
  }
  const auto rank = [](const Samples& s) {
    return std::tuple(s.raw_ns.empty(), s.state == SampleState::Disturbed, s.estimate.latency_ns);
  };
  const auto fastest =
      std::min_element(taken.begin(), taken.end(),
                       [&](const Samples& a, const Samples& b) { return rank(a) < rank(b); });
  Samples all = *fastest;
  const bool is_disturbed = fastest->state == SampleState::Disturbed;
  const double limit_ns = agrees * fastest->estimate.latency_ns;
  for (auto s = taken.begin(); s != taken.end(); ++s)
    if (s != fastest && is_disturbed == (s->state == SampleState::Disturbed) &&
        s->estimate.latency_ns <= limit_ns)
      all.raw_ns.insert(all.raw_ns.end(), s->raw_ns.begin(), s->raw_ns.end());
  all.estimate = estimate_as(all.state, all.raw_ns);
  return all;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Interval median_interval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile_interval(values, 0.5, 0.005);
}

Comparison compare_abba(const Timer& timer_a, const Timer& timer_b, int rounds,
                        const Sampling& options, Watch& watch) {
  TW_CHECK(rounds > 0);
  Comparison c;
  timer_a(1);
  timer_b(1);
  TimedBatch a = fit_batch(timer_a, options);
  TimedBatch b = fit_batch(timer_b, options);
  SelfRatio self_a, self_b;
  std::vector<double> ratios;
  const auto wanted = static_cast<size_t>(rounds);
  int timed = 0, fitted = 0;
  while (timed < 2 * rounds && ratios.size() < wanted) {
    if (a.too_fast || b.too_fast) {
      c.state = SampleState::TooFast;
      return c;
    }
    watch.begin();
    const Round round = time_round(timer_a, a.calls, timer_b, b.calls);
    const std::optional<std::string> objection = watch.objection(watch.end());
    const bool a_is_too_short = is_too_short(least(round.a), a.calls, options);
    const bool b_is_too_short = is_too_short(least(round.b), b.calls, options);
    if ((a_is_too_short || b_is_too_short) && fitted++ < most_fits) {
      if (a_is_too_short) a = fit_batch(timer_a, options);
      if (b_is_too_short) b = fit_batch(timer_b, options);
      self_a = self_b = {};
      ratios.clear();
      timed = 0;
      continue;
    }
    ++timed;
    if (a_is_too_short || b_is_too_short) continue;
    if (objection) {
      watch.rest();
      continue;
    }
    const auto number = static_cast<int>(ratios.size());
    self_a.add(number, round.a);
    self_b.add(number, round.b);
    ratios.push_back(least(round.b) / least(round.a));
  }
  if (ratios.empty()) {
    c.state = SampleState::Disturbed;
    return c;
  }
  const size_t counted = ratios.size();
  const Interval interval = median_interval(std::move(ratios));
  c.ratio = self_b.best() / self_a.best();
  c.low = interval.low;
  c.high = interval.high;
  c.noise_floor = std::max({least_noise_floor, self_a.noise(), self_b.noise()});
  c.winner = counted < least_rounds ? Winner::Tie : verdict(c);
  return c;
}

}  // namespace tw::tuner
