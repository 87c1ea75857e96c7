// SPDX-License-Identifier: Apache-2.0
#include "bench/interleave.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tw::bench {
namespace {

/// One contender while it is timed.
struct Turn {
  Contender* contender;
  int64_t next_call = 0;
  int64_t batch = 1;
  double min_ns = std::numeric_limits<double>::infinity();

  Result<int64_t> time(int64_t calls, const Rounds& options, const tuner::Clock& clock) {
    const int64_t first = next_call;
    next_call += calls;
    return contender->time_ns(first, calls, options.prepares, clock);
  }

  /// Chooses the batch: doubles until it is long enough, which also warms up.
  Status calibrate(const Rounds& options, const tuner::Clock& clock) {
    TW_RETURN_IF_ERROR(contender->run(next_call++));
    for (;; batch *= 2) {
      TW_TRY(const int64_t elapsed, time(batch, options, clock));
      if (elapsed >= options.min_batch_ns || batch >= options.most_calls) return {};
    }
  }

  /// ns of one call in one batch.
  Result<double> take(const Rounds& options, const tuner::Clock& clock) {
    if (options.between) options.between();
    TW_RETURN_IF_ERROR(contender->run(next_call++));
    TW_TRY(const int64_t elapsed, time(batch, options, clock));
    const double call_ns = static_cast<double>(elapsed) / static_cast<double>(batch);
    min_ns = std::min(min_ns, call_ns);
    return call_ns;
  }
};

}  // namespace

Result<Versus> interleave(Contender& a, Contender& b, const Rounds& options,
                          const tuner::Clock& clock) {
  Turn first{&a}, second{&b};
  for (Turn* turn : {&first, &second}) TW_RETURN_IF_ERROR(turn->calibrate(options, clock));
  std::vector<double> ratios;
  for (int round = 0; round < options.rounds; ++round) {
    TW_TRY(const double a1, first.take(options, clock));
    TW_TRY(const double b1, second.take(options, clock));
    TW_TRY(const double b2, second.take(options, clock));
    TW_TRY(const double a2, first.take(options, clock));
    ratios.push_back((b1 + b2) / (a1 + a2));
  }
  const Median median = median_of(std::move(ratios));
  return Versus{first.min_ns, second.min_ns, second.min_ns / first.min_ns, median.value, median.low,
                median.high,  options.rounds};
}

Result<std::vector<double>> fastest_calls(const std::vector<Contender*>& contenders, int batches,
                                          const Rounds& options, const tuner::Clock& clock) {
  std::vector<Turn> turns;
  for (Contender* contender : contenders) turns.push_back({contender});
  for (Turn& turn : turns) TW_RETURN_IF_ERROR(turn.calibrate(options, clock));
  for (int i = 0; i < batches; ++i)
    for (Turn& turn : turns)
      if (const auto taken = turn.take(options, clock); !taken)
        return tl::unexpected<Error>(taken.error());
  std::vector<double> fastest;
  for (const Turn& turn : turns) fastest.push_back(turn.min_ns);
  return fastest;
}

Median median_of(std::vector<double> values) {
  TW_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double middle = (values[(n - 1) / 2] + values[n / 2]) / 2;
  // The number of values below the true median is binomial(n, 1/2).
  const double reach = 1.96 * std::sqrt(static_cast<double>(n)) / 2;
  const size_t low = static_cast<size_t>(std::max(0.0, static_cast<double>(n) / 2 - reach));
  return {middle, values[low], values[n - 1 - low]};
}

}  // namespace tw::bench
