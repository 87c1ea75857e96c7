// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/scoring.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_set>

#include "cost_model/cost_model.h"
#include "cost_model/expected.h"
#include "cost_model/features.h"
#include "schedules/space/find_point.h"
#include "tuner/search/for_each_index.h"
#include "tuner/search/search.h"

namespace tw::tuner {
namespace {

using schedules::Point;

// Number of rows of features for which the pretrained trees predict in one call. A call costs some
// tens of microseconds in addition to its rows.
constexpr size_t rows_at_once = 64;

// The largest number of points for which predicted_schedule() calls `accepts`. It nearly always
// accepts the first one.
constexpr size_t most_offered = 8;

struct Spelled {
  std::optional<schedules::Schedule> schedule;
  std::string text;
};

/// Writes the expected times into the features of the candidates.
void expect_times(std::vector<JudgedPoint>& judged, const Target& target, int workers) {
  std::vector<std::vector<float>*> rows;
  for (JudgedPoint& one : judged)
    if (one.candidate) rows.push_back(&one.candidate->features);
  const std::span<std::vector<float>* const> all = rows;
  const size_t parts = (rows.size() + rows_at_once - 1) / rows_at_once;
  for_each_index(parts, workers, [&](size_t part) {
    const size_t begin = part * rows_at_once;
    cost_model::expect(all.subspan(begin, std::min(rows_at_once, rows.size() - begin)), target);
  });
}

}  // namespace

std::vector<JudgedPoint> judge_points(const schedules::Space& space,
                                      const std::vector<Point>& points, const Target& target,
                                      const Seen& seen, const ScoringOptions& options) {
  const auto is_stopped = [&] { return options.stop.is_stopped(); };
  std::vector<Spelled> spelled(points.size());
  std::vector<JudgedPoint> judged(points.size());
  for_each_index(points.size(), options.workers, [&](size_t i) {
    if (is_stopped()) return;
    schedules::Schedule schedule = space.schedule(points[i]);
    if (schedule.error()) return;
    spelled[i].text = schedule.to_string();
    if (seen.has(spelled[i].text))
      judged[i].standing = Standing::Seen;
    else
      spelled[i].schedule = std::move(schedule);
  });
  std::unordered_set<std::string_view> texts;
  for (size_t i = 0; i < points.size(); ++i)
    if (spelled[i].schedule && !texts.insert(spelled[i].text).second) {
      judged[i].standing = Standing::Seen;
      spelled[i].schedule.reset();
    }

  const schedules::Limits limits = schedules::limits_searched(target);
  for_each_index(points.size(), options.workers, [&](size_t i) {
    if (!spelled[i].schedule || is_stopped()) return;
    auto program = spelled[i].schedule->program(limits);
    spelled[i].schedule.reset();
    if (!program) return;
    const size_t meaning = schedules::hash(*program);
    if (seen.programs.contains(meaning)) {
      judged[i].standing = Standing::Seen;
      return;
    }
    auto features = cost_model::extract_features_of_call(std::move(*program), space.problem(),
                                                         target, options.kernel_threads);
    if (features)
      judged[i] = {Standing::New, Candidate{points[i], spelled[i].text, meaning,
                                            std::move(*features), space.to_string(points[i])}};
  });
  std::unordered_set<size_t> programs;
  for (JudgedPoint& one : judged)
    if (one.candidate && !programs.insert(one.candidate->program).second) one = {Standing::Seen};
  if (options.prior == Prior::Pretrained) expect_times(judged, target, options.workers);
  return judged;
}

std::vector<std::optional<Candidate>> candidates_of(const schedules::Space& space,
                                                    const std::vector<Point>& points,
                                                    const Target& target, const Seen& seen,
                                                    const ScoringOptions& options) {
  std::vector<std::optional<Candidate>> candidates;
  for (JudgedPoint& judged : judge_points(space, points, target, seen, options))
    candidates.push_back(std::move(judged.candidate));
  return candidates;
}

Result<Candidate> candidate_of(const schedules::Schedule& schedule, const schedules::Space& space,
                               const schedules::Problem& problem, int kernel_threads) {
  const Target& target = space.target();
  TW_TRY(schedules::Program program, schedule.program(schedules::limits_of(target)));
  TW_RETURN_IF_ERROR(schedules::check_layouts(schedule, problem));
  const size_t meaning = schedules::hash(program);
  TW_TRY(std::vector<float> features, cost_model::features_with_expected_time(
                                          std::move(program), problem, target, kernel_threads));
  const std::optional<schedules::Point> point = schedules::point_of(space, schedule);
  return Candidate{point.value_or(schedules::Point{}), schedule.to_string(), meaning,
                   std::move(features), point ? space.to_string(*point) : ""};
}

Score score_before_trials(const schedules::Space& space, int kernel_threads, Prior prior,
                          const StopToken& stop) {
  return [&space, kernel_threads, prior, stop](const std::vector<Point>& points) {
    static const cost_model::WorkloadModel nothing_measured;
    std::vector<Prediction> predictions;
    for (const JudgedPoint& one : judge_points(
             space, points, space.target(), {},
             {.kernel_threads = kernel_threads, .workers = 1, .stop = stop, .prior = prior})) {
      if (!one.candidate)
        predictions.emplace_back(one.standing);
      else if (cost_model::gpu_spills_of(one.candidate->features) > 0)
        predictions.emplace_back(Standing::Illegal);
      else
        predictions.emplace_back(nothing_measured.predict({&one.candidate->features, 1})[0]);
    }
    return predictions;
  };
}

Result<std::string> predicted_schedule(const schedules::Problem& problem, const Target& target,
                                       int kernel_threads, const StopToken& stop,
                                       const PredictionEffort& effort, const Accepts& accepts) {
  TW_TRY(const schedules::Space space, schedules::Space::derive(problem, target, stop));
  return predicted_schedule(space, kernel_threads, stop, effort, accepts);
}

Result<std::string> predicted_schedule(const schedules::Space& space, int kernel_threads,
                                       const StopToken& stop, const PredictionEffort& effort,
                                       const Accepts& accepts) {
  const Score score = score_before_trials(space, kernel_threads, effort.prior, stop);
  Random random(1);
  if (space.target().is_gpu()) {
    TW_TRY(const Point first, space.default_point(stop));
    TW_TRY(const std::vector<Point> best, best_points(space, {first}, score, effort.descent, random,
                                                      accepts ? most_offered : 1, stop));
    for (size_t i = 0; accepts && i < best.size(); ++i)
      if (std::string text = space.schedule(best[i]).to_string(); accepts(text)) return text;
    return space.schedule(best.front()).to_string();
  }
  TW_TRY(const std::unique_ptr<Search> search, make_search("evolution"));
  const std::vector<Point> preferred =
      search->propose(space, {{}, {}, stop, effort.most_points}, score, 1, random);
  if (preferred.empty()) {
    TW_TRY(const Point first, space.default_point(stop));
    return space.schedule(first).to_string();
  }
  if (!effort.descends) return space.schedule(preferred[0]).to_string();
  TW_TRY(const Point best, descend(space, {preferred[0]}, score, {}, random, stop));
  return space.schedule(best).to_string();
}

}  // namespace tw::tuner
