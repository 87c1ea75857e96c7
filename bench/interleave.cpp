// SPDX-License-Identifier: Apache-2.0
#include "bench/interleave.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tw::bench {
namespace {

/// One contender while it is timed.
struct Turn {
  Contender* contender;
  int64_t next_call = 0;
  int64_t batch = 1;

  Result<int64_t> time(int64_t calls, const Rounds& options, const tuner::Clock& clock) {
    const int64_t first = next_call;
    next_call += calls;
    return contender->time_ns(first, calls, options.prepares, clock);
  }

  /// Chooses the size of a batch: doubles it until the batch is long enough, which also warms up.
  Status calibrate(const Rounds& options, const tuner::Clock& clock) {
    TW_RETURN_IF_ERROR(contender->run(next_call++));
    for (;; batch *= 2) {
      TW_TRY(const int64_t elapsed, time(batch, options, clock));
      if (elapsed >= options.min_batch_ns || batch >= options.most_calls) return {};
    }
  }

  /// Times one batch, and returns the time of a call in ns.
  Result<double> take(const Rounds& options, const tuner::Clock& clock) {
    if (options.between) options.between();
    TW_RETURN_IF_ERROR(contender->run(next_call++));
    TW_TRY(const int64_t elapsed, time(batch, options, clock));
    return static_cast<double>(elapsed) / static_cast<double>(batch);
  }
};

/// Collects the times and ratios of rounds of the order A B B A.
struct Tally {
  double a_least_ns = std::numeric_limits<double>::infinity(), b_least_ns = a_least_ns;
  std::vector<double> a_ns = {}, b_ns = {}, ratios = {};

  void add(double a1, double b1, double b2, double a2) {
    a_least_ns = std::min({a_least_ns, a1, a2});
    b_least_ns = std::min({b_least_ns, b1, b2});
    a_ns.push_back((a1 + a2) / 2);
    b_ns.push_back((b1 + b2) / 2);
    ratios.push_back((b1 + b2) / (a1 + a2));
  }
};

// Largest number of attempts at a turn of interleave_all(). A call of a network takes a tenth of a
// second, and a shared machine is rarely undisturbed for the many calls of a round. So single turns
// are accepted or repeated, not whole rounds.
constexpr int most_attempts = 5;

/// Rounds of several contenders.
class LapTimer {
 public:
  LapTimer(std::vector<Turn>& turns, const Rounds& options, const tuner::Clock& clock)
      : turns_(turns), options_(options), clock_(clock) {}

  Result<Laps> run() {
    Laps counted, all;
    counted.ns.resize(turns_.size());
    all.ns.resize(turns_.size());
    for (int taken = 0; counted.rounds < options_.rounds && taken < 2 * options_.rounds; ++taken) {
      counts_ = true;
      TW_TRY(const std::vector<double> times, round());
      add(times, all);
      if (counts_) add(times, counted);
    }
    Laps& laps = counted.rounds > 0 ? counted : all;
    laps.rounds = counted.rounds;
    laps.disturbance = std::move(disturbance_);
    return std::move(laps);
  }

 private:
  Result<std::vector<double>> round() {
    std::vector<double> times(turns_.size(), 0);
    for (size_t i = 0; i < 2 * turns_.size(); ++i) {
      const size_t index = i < turns_.size() ? i : 2 * turns_.size() - 1 - i;
      TW_TRY(const double ns, turn(turns_[index]));
      times[index] += ns / 2;
    }
    return times;
  }

  Result<double> turn(Turn& turn) {
    for (int attempt = 1;; ++attempt) {
      watch().begin();
      TW_TRY(const double ns, turn.take(options_, clock_));
      const auto objection = watch().objection(watch().end());
      if (!objection) return ns;
      disturbance_ = *objection;
      watch().rest();
      if (attempt < most_attempts) continue;
      counts_ = false;
      return ns;
    }
  }

  static void add(const std::vector<double>& times, Laps& laps) {
    ++laps.rounds;
    for (size_t i = 0; i < times.size(); ++i) laps.ns[i].push_back(times[i]);
  }

  tuner::Watch& watch() { return options_.watch ? *options_.watch : no_watch_; }

  std::vector<Turn>& turns_;
  const Rounds& options_;
  const tuner::Clock& clock_;
  tuner::NoWatch no_watch_;
  bool counts_ = true;  ///< true as long as no turn of the present round was rejected every time
  std::string disturbance_;
};

/// Returns the index `low` of the interval's low end among `count` sorted values; its high end has
/// the index count - 1 - low. `low` is the largest index for which the median lies outside of the
/// interval with a probability of at most 5 %, or 0 if there is no such index.
size_t low_of(size_t count) {
  // The number of values below the true median is binomial(count, 1/2). The median lies below the
  // interval if this number is at most the index. The probabilities are computed as logarithms,
  // because 1/2^count may be too small for a double.
  double log_share = -static_cast<double>(count) * std::numbers::ln2;
  double below = std::exp(log_share);
  for (size_t index = 0;; ++index) {
    log_share += std::log(static_cast<double>(count - index) / static_cast<double>(index + 1));
    below += std::exp(log_share);
    if (2 * below > 0.05) return index;
  }
}

}  // namespace

Result<Laps> interleave_all(const std::vector<Contender*>& contenders, const Rounds& options,
                            const tuner::Clock& clock) {
  std::vector<Turn> turns;
  for (Contender* contender : contenders) turns.push_back({contender});
  for (Turn& turn : turns) TW_RETURN_IF_ERROR(turn.calibrate(options, clock));
  return LapTimer(turns, options, clock).run();
}

Result<Versus> interleave(Contender& a, Contender& b, const Rounds& options,
                          const tuner::Clock& clock) {
  Turn first{&a}, second{&b};
  for (Turn* turn : {&first, &second}) TW_RETURN_IF_ERROR(turn->calibrate(options, clock));
  tuner::NoWatch no_watch;
  tuner::Watch& watch = options.watch ? *options.watch : no_watch;
  Tally counted, all;
  std::string disturbance;
  const auto wanted = static_cast<size_t>(options.rounds);
  while (counted.ratios.size() < wanted && all.ratios.size() < 2 * wanted) {
    watch.begin();
    TW_TRY(const double a1, first.take(options, clock));
    TW_TRY(const double b1, second.take(options, clock));
    TW_TRY(const double b2, second.take(options, clock));
    TW_TRY(const double a2, first.take(options, clock));
    all.add(a1, b1, b2, a2);
    if (const auto objection = watch.objection(watch.end())) {
      disturbance = *objection;
      watch.rest();
    } else {
      counted.add(a1, b1, b2, a2);
    }
  }
  const auto rounds = static_cast<int>(counted.ratios.size());
  const Tally& taken = rounds > 0 ? counted : all;
  return Versus{median_of(taken.a_ns), median_of(taken.b_ns), median_of(taken.ratios),
                taken.a_least_ns,      taken.b_least_ns,      rounds,
                std::move(disturbance)};
}

Result<std::vector<double>> fastest_calls(const std::vector<Contender*>& contenders, int batches,
                                          const Rounds& options, const tuner::Clock& clock) {
  std::vector<Turn> turns;
  for (Contender* contender : contenders) turns.push_back({contender});
  for (Turn& turn : turns) TW_RETURN_IF_ERROR(turn.calibrate(options, clock));
  std::vector<double> fastest(turns.size(), std::numeric_limits<double>::infinity());
  for (int i = 0; i < batches; ++i)
    for (size_t k = 0; k < turns.size(); ++k) {
      TW_TRY(const double ns, turns[k].take(options, clock));
      fastest[k] = std::min(fastest[k], ns);
    }
  return fastest;
}

Median median_of(std::vector<double> values) {
  TW_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double middle = (values[(n - 1) / 2] + values[n / 2]) / 2;
  const size_t low = low_of(n);
  return {middle, values[low], values[n - 1 - low]};
}

}  // namespace tw::bench
