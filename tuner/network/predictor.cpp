// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/predictor.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cost_model/analytic.h"
#include "cost_model/expected.h"
#include "schedules/program/pack.h"
#include "schedules/schedule.h"
#include "tuner/search/descent.h"
#include "tuner/search/scoring.h"
#include "tuner/search/search.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

/// The numbers of points that a prediction compares if the workload has several algorithms.
struct PredictionEffort {
  size_t direct = 0;  ///< number of points of the direct algorithm
  /// Number of generations; each changes the best points of other algorithms.
  size_t generations = 0;
  size_t generation = 0;  ///< number of points in each generation
};
constexpr PredictionEffort rough_effort{8}, full_effort{48, 4, 16};
constexpr size_t samples_per_algorithm = 8;
constexpr PredictionEffort seed_effort{0, 4, 8};
constexpr size_t most_seeds = 2;

/// Points with their scores, best first.
class Ranking {
 public:
  explicit Ranking(const Score& score) : score_(score) {}

  /// Scores the points that are new, and adds those that are legal.
  void add(std::vector<Point> points) {
    std::erase_if(points, [&](const Point& point) { return !known_.insert(point).second; });
    const std::vector<Prediction> predictions = score_(points);
    for (size_t i = 0; i < points.size(); ++i)
      if (std::isfinite(predictions[i].score))
        ranked_.push_back({predictions[i].score, std::move(points[i])});
    std::stable_sort(ranked_.begin(), ranked_.end(),
                     [](const Ranked& a, const Ranked& b) { return a.score > b.score; });
  }
  /// Returns the best points of algorithms other than the direct one, at most `most`.
  std::vector<Point> best_of_others(const Space& space, size_t most) const {
    std::vector<Point> best;
    for (const Ranked& ranked : ranked_)
      if (best.size() < most && space.algorithm_of(ranked.point) != 0) best.push_back(ranked.point);
    return best;
  }
  std::optional<Point> best() const {
    return ranked_.empty() ? std::nullopt : std::optional(ranked_.front().point);
  }

 private:
  struct Ranked {
    double score = 0;
    Point point;
  };
  const Score& score_;
  std::vector<Ranked> ranked_;
  std::set<Point> known_;
};

/// Adds effort.generations generations. Each consists of changes of the best points of algorithms
/// other than the direct one.
void evolve(const Space& space, const PredictionEffort& effort, Random& random, Ranking& ranking) {
  for (size_t i = 0; i < effort.generations; ++i) {
    const std::vector<Point> parents = ranking.best_of_others(space, most_seeds);
    std::vector<Point> changed;
    for (size_t n = 0; n < effort.generation && !parents.empty(); ++n)
      changed.push_back(space.mutate(parents[n % parents.size()], random));
    ranking.add(changed);
  }
}

/// Returns random points of algorithms other than the direct one. Algorithms that are not expected
/// to be exact enough are left out.
std::vector<Point> samples_of_others(const Space& space, Random& random) {
  std::vector<Point> samples;
  for (size_t i = 0; i < samples_per_algorithm * space.algorithms(); ++i) {
    Point point = space.sample(random);
    const size_t algorithm = space.algorithm_of(point);
    if (algorithm != 0 && !is_in_doubt(space, algorithm)) samples.push_back(std::move(point));
  }
  return samples;
}

dsl::Workload with_row_major_arrays(dsl::Workload workload) {
  for (auto& [tensor, layout] : workload.layouts) layout = workload.compute.letters_of(tensor);
  return workload;
}

class Predictor {
 public:
  Predictor(Target target, int threads, StopToken stop, double most_error)
      : target_(std::move(target)),
        threads_(threads),
        stop_(std::move(stop)),
        most_error_(most_error) {}

  Result<Predicted> predict(const dsl::Workload& workload, Precision precision) {
    Predicted predicted;
    TW_TRY(predicted.schedule, schedule_of(workload, precision));
    TW_TRY(const schedules::Schedule schedule,
           schedules::parse_schedule(workload.compute, predicted.schedule));
    TW_TRY(schedules::Program kernel, schedule.program(schedules::limits_of(target_)));
    const schedules::Problem problem = schedules::problem_of(workload);
    TW_TRY(predicted.expected_ns, cost_model::expected_ns(kernel, problem, target_, threads_));
    const schedules::Program call = schedules::program_of_call(std::move(kernel), problem, target_);
    TW_TRY(predicted.analytic_ns,
           cost_model::analytic_cost_ns(call, target_, threads_, workload.state));
    if (workload.state != dsl::CacheState::Hot) {
      TW_TRY(predicted.hot_ns, cost_model::analytic_cost_ns(call, target_, threads_));
    }
    return predicted;
  }

 private:
  /// Texts of configurations, best first.
  using Seeds = std::vector<std::string>;

  Result<Space> space_of(const dsl::Workload& workload) const {
    return Space::derive(schedules::problem_of(workload, most_error_), target_, stop_);
  }

  Result<std::string> schedule_of(const dsl::Workload& workload, Precision precision) {
    TW_TRY(const Space space, space_of(workload));
    if (space.algorithms() > 1) return best_of_algorithms(space, workload, precision);
    return predicted_schedule(space, threads_, stop_,
                              precision == Precision::Rough ? effort_of_scheme : effort_of_network);
  }

  Result<std::string> best_of_algorithms(const Space& space, const dsl::Workload& workload,
                                         Precision precision) {
    // Without row-major seeds the search continues: row-major arrays may be impossible although the
    // layouts that the workload asks for are possible.
    const Result<Seeds> found = seeds_for(workload);
    const Seeds seeds = found.value_or(Seeds());
    TW_TRY(const Point first, space.default_point(stop_));
    const PredictionEffort& effort = precision == Precision::Rough ? rough_effort : full_effort;
    const Score score = score_before_trials(space, threads_, Prior::Analytic, stop_);
    // Points of the direct algorithm, random points of other algorithms, and changed points each
    // have a random generator of their own. So a full prediction begins with the points of the
    // rough one.
    Random direct(1), others(2), changes(3);
    std::vector<Point> points = {first};
    while (points.size() < effort.direct) points.push_back(space.sample_like(first, direct));
    for (const std::string& seed : seeds)
      if (auto point = space.parse(seed)) points.push_back(std::move(*point));
    Ranking ranking(score);
    ranking.add(points);
    if (ranking.best_of_others(space, 1).empty()) ranking.add(samples_of_others(space, others));
    evolve(space, effort, changes, ranking);
    TW_RETURN_IF_ERROR(check_not_stopped(stop_, "network"));
    Point best = ranking.best().value_or(first);
    // Points of algorithms with more stages are slow to lower, and the good seeds leave little to
    // gain. So no descent starts from them.
    constexpr size_t most_stages = 2;
    const size_t algorithm = space.algorithm_of(best);
    const bool is_small = algorithm == 0 || space.stages(algorithm) <= most_stages;
    if (precision == Precision::Full && is_small) {
      TW_TRY(best, descend(space, {best}, score, {}, changes, stop_));
    }
    return space.schedule(best).to_string();
  }

  Result<Seeds> seeds_for(const dsl::Workload& workload) {
    const dsl::Workload row_major = with_row_major_arrays(workload);
    std::promise<Result<Seeds>> promise;
    std::shared_future<Result<Seeds>> found;
    bool is_first = false;
    {
      const std::lock_guard lock(mutex_);
      const auto [at, is_new] = seeds_.try_emplace(row_major.text());
      if (is_new) at->second = promise.get_future().share();
      found = at->second;
      is_first = is_new;
    }
    if (is_first) promise.set_value(find_seeds(row_major));
    return found.get();
  }

  Result<Seeds> find_seeds(const dsl::Workload& row_major) const {
    TW_TRY(const Space space, space_of(row_major));
    const Score score = score_before_trials(space, threads_, Prior::Analytic, stop_);
    Random random(1);
    Ranking ranking(score);
    ranking.add(samples_of_others(space, random));
    evolve(space, seed_effort, random, ranking);
    Seeds seeds;
    for (const Point& point : ranking.best_of_others(space, most_seeds))
      seeds.push_back(space.to_string(point));
    return seeds;
  }

  Target target_;
  int threads_;
  StopToken stop_;
  double most_error_;
  std::mutex mutex_;
  std::map<std::string, std::shared_future<Result<Seeds>>> seeds_;  ///< by row-major workloads
};

}  // namespace

Predict predict_for(const Target& target, int threads, StopToken stop, double most_error) {
  return [predictor = std::make_shared<Predictor>(target, threads, std::move(stop), most_error)](
             const dsl::Workload& workload, Precision precision) {
    return predictor->predict(workload, precision);
  };
}

}  // namespace tw::tuner
