// SPDX-License-Identifier: Apache-2.0
#include "tuner/step_threads.h"

#include <memory>
#include <utility>

#include "tuner/peak.h"
#include "tuner/sampling.h"
#include "tuner/watch.h"

namespace tw::tuner {
namespace {

/// Differences below 1 % are noise, as in sampling.cpp.
constexpr double clearly_faster = 0.99;

/// Calls of a model by turns on one and on all threads of a pool.
class StepTimer {
 public:
  StepTimer(const runtime::Model& model, ModelArrays arrays, runtime::ThreadPool& pool,
            Watch& watch)
      : model_(model),
        arrays_(std::move(arrays)),
        buffers_(arrays_.buffers()),
        pool_(pool),
        watch_(watch),
        rounds_(model.info().variants.front().steps.size()) {}

  Status warm_up() {
    for (const int threads : {1, 0}) TW_RETURN_IF_ERROR(model_.call(buffers_, pool_, threads));
    return {};
  }

  /// One round, which counts unless the watch objects.
  Status time_round(bool one_first) {
    watch_.begin();
    std::vector<double> one, all;
    for (const bool on_one : {one_first, !one_first}) {
      TW_TRY(runtime::ModelProfile profile, model_.profile(buffers_, pool_, on_one ? 1 : 0));
      (on_one ? one : all) = runtime::times_of_steps(model_.info(), profile);
    }
    if (watch_.objection(watch_.end())) {
      watch_.rest();
      return {};
    }
    for (size_t step = 0; step < rounds_.size(); ++step)
      rounds_[step].push_back({one[step], all[step]});
    ++count_;
    return {};
  }

  /// The number of rounds that count.
  int count() const { return count_; }
  /// These rounds, of each step.
  const std::vector<std::vector<StepRound>>& rounds() const { return rounds_; }

 private:
  const runtime::Model& model_;
  ModelArrays arrays_;
  const std::vector<runtime::Buffer> buffers_;
  runtime::ThreadPool& pool_;
  Watch& watch_;
  std::vector<std::vector<StepRound>> rounds_;
  int count_ = 0;
};

}  // namespace

bool is_faster_on_one(std::span<const StepRound> rounds) {
  if (std::ssize(rounds) < least_rounds) return false;
  std::vector<double> ratios;
  for (const auto& [one_ns, all_ns] : rounds)
    if (all_ns > 0) ratios.push_back(one_ns / all_ns);
  return std::ssize(ratios) >= least_rounds &&
         median_interval(std::move(ratios)).high < clearly_faster;
}

Result<std::vector<int>> step_threads(const runtime::Model& model, const Clock& clock,
                                      const RaceOptions& options) {
  TW_CHECK(options.threads > 1, "a step on one thread has no choice");
  runtime::ThreadPool pool(runtime::PoolOptions{.threads = options.threads});
  Gauge gauge(pool, options.threads, clock);
  const std::unique_ptr<Watch> watch = watch_processor(gauge, clock);
  TW_TRY(ModelArrays arrays, random_arrays(model, 1));
  StepTimer timer(model, std::move(arrays), pool, *watch);
  TW_RETURN_IF_ERROR(timer.warm_up());
  const int64_t started = clock();
  bool one_first = true;
  while (timer.count() < options.most_rounds) {
    if (options.stop.is_stopped())
      return fail(ErrorCode::Interrupted, "[network] interrupted while its steps were timed");
    TW_RETURN_IF_ERROR(timer.time_round(std::exchange(one_first, !one_first)));
    if (static_cast<double>(clock() - started) > options.budget_s * 1e9) break;
  }
  std::vector<int> threads;
  for (const std::vector<StepRound>& rounds : timer.rounds())
    threads.push_back(is_faster_on_one(rounds) ? 1 : 0);
  return threads;
}

}  // namespace tw::tuner
