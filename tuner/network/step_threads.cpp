// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/step_threads.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "tuner/measure/peak.h"
#include "tuner/measure/sampling.h"
#include "tuner/measure/watch.h"

namespace tw::tuner {
namespace {

using runtime::BandOrder;

/// Differences below 1 % are noise, as in measure/sampling.cpp.
constexpr double clearly_faster = 0.99;

/// A way to call a model.
struct Way {
  int threads = 0;  ///< 0: all
  BandOrder order = BandOrder::InOrder;
};
constexpr Way on_one = {.threads = 1}, on_all = {}, beside = {.order = BandOrder::SideBySide};

/// Times of one round of calls.
struct Round {
  /// For each step, with the steps in order on one and on all threads.
  std::vector<double> one_ns, all_ns;
  std::vector<double> side_by_side_ns;  ///< for each band, with its chains side by side
};

/// Returns for each band the time from the beginning of its first step to the end of its last step.
std::vector<double> times_of_bands(const runtime::ModelVariant& variant,
                                   const runtime::ModelProfile& profile) {
  std::vector<double> times;
  for (const runtime::ModelBand& band : variant.bands) {
    int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
    for (const runtime::StepTime& time : profile.steps) {
      if (time.step < band.first || time.step >= band.end()) continue;
      begin = std::min(begin, time.begin_ns);
      end = std::max(end, time.end_ns);
    }
    times.push_back(static_cast<double>(end - begin));
  }
  return times;
}

/// Times calls of a model by turns on one thread, on all threads and, if the model has bands, side
/// by side.
class StepTimer {
 public:
  StepTimer(const runtime::Model& model, ModelArrays arrays, runtime::ThreadPool& pool,
            Watch& watch)
      : model_(model),
        arrays_(std::move(arrays)),
        buffers_(arrays_.buffers()),
        pool_(pool),
        watch_(watch),
        ways_({on_one, on_all}) {
    if (!variant().bands.empty()) ways_.push_back(beside);
  }

  Status warm_up() {
    for (const Way& way : ways_) TW_RETURN_IF_ERROR(profile(way));
    return {};
  }

  /// Times one round of calls. The round counts unless the watch found a disturbance. The next
  /// round makes its calls in reverse order.
  Status time_round() {
    watch_.begin();
    Round round;
    for (const Way& way : ways_) {
      TW_TRY(const runtime::ModelProfile profiled, profile(way));
      if (way.order == BandOrder::SideBySide)
        round.side_by_side_ns = times_of_bands(variant(), profiled);
      else
        (way.threads == 1 ? round.one_ns : round.all_ns) =
            runtime::times_of_steps(model_.info(), profiled);
    }
    std::ranges::reverse(ways_);
    if (watch_.objection(watch_.end()))
      watch_.rest();
    else
      rounds_.push_back(std::move(round));
    return {};
  }

  /// The rounds that were not disturbed.
  const std::vector<Round>& rounds() const { return rounds_; }
  const runtime::ModelVariant& variant() const { return model_.info().variants.front(); }

 private:
  Result<runtime::ModelProfile> profile(const Way& way) {
    return model_.profile(buffers_, pool_, way.threads, way.order);
  }

  const runtime::Model& model_;
  ModelArrays arrays_;
  const std::vector<runtime::Buffer> buffers_;
  runtime::ThreadPool& pool_;
  Watch& watch_;
  std::vector<Way> ways_;
  std::vector<Round> rounds_;
};

/// Returns for each step 1 if one thread is clearly faster than all threads, else 0.
std::vector<int> limits_from(const std::vector<Round>& rounds, size_t steps) {
  std::vector<int> limits;
  for (size_t step = 0; step < steps; ++step) {
    std::vector<TimePair> pairs;
    for (const Round& round : rounds) pairs.push_back({round.one_ns[step], round.all_ns[step]});
    limits.push_back(is_first_faster(pairs) ? 1 : 0);
  }
  return limits;
}

/// Returns for each band true if it is clearly faster side by side than in order under these
/// limits.
std::vector<bool> bands_from(const std::vector<Round>& rounds, const std::vector<int>& limits,
                             const std::vector<runtime::ModelBand>& bands) {
  std::vector<bool> side_by_side;
  for (size_t band = 0; band < bands.size(); ++band) {
    std::vector<TimePair> pairs;
    for (const Round& round : rounds) {
      double in_order_ns = 0;
      for (auto step = static_cast<size_t>(bands[band].first);
           std::cmp_less(step, bands[band].end()); ++step)
        in_order_ns += (limits[step] == 1 ? round.one_ns : round.all_ns)[step];
      pairs.push_back({round.side_by_side_ns[band], in_order_ns});
    }
    side_by_side.push_back(is_first_faster(pairs));
  }
  return side_by_side;
}

}  // namespace

bool is_first_faster(std::span<const TimePair> pairs) {
  if (std::ssize(pairs) < least_rounds) return false;
  std::vector<double> ratios;
  for (const auto& [a_ns, b_ns] : pairs)
    if (b_ns > 0) ratios.push_back(a_ns / b_ns);
  return std::ssize(ratios) >= least_rounds &&
         median_interval(std::move(ratios)).high < clearly_faster;
}

Result<ThreadUse> step_threads(const runtime::Model& model, const Clock& clock,
                               const RaceOptions& options) {
  TW_CHECK(options.threads > 1, "a step on one thread has no choice");
  runtime::ThreadPool pool(runtime::PoolOptions{.threads = options.threads});
  Gauge gauge(pool, options.threads, clock);
  const std::unique_ptr<Watch> watch = watch_processor(gauge, clock);
  TW_TRY(ModelArrays arrays, random_arrays(model, 1));
  StepTimer timer(model, std::move(arrays), pool, *watch);
  TW_RETURN_IF_ERROR(timer.warm_up());
  const int64_t started = clock();
  while (std::ssize(timer.rounds()) < options.most_rounds) {
    if (options.stop.is_stopped())
      return fail(ErrorCode::Interrupted, "[network] interrupted while its steps were timed");
    TW_RETURN_IF_ERROR(timer.time_round());
    if (static_cast<double>(clock() - started) > options.budget_s * 1e9) break;
  }
  ThreadUse use;
  use.limits = limits_from(timer.rounds(), timer.variant().steps.size());
  use.side_by_side = bands_from(timer.rounds(), use.limits, timer.variant().bands);
  return use;
}

}  // namespace tw::tuner
