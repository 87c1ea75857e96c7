// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/rated.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "dsl/workload.h"

namespace tw::tuner {

using schedules::Point;
using schedules::Space;

namespace {

// Number of failed trials after which an algorithm that never succeeded is given up. So few are
// enough, because an algorithm whose rounding error is too large fails with every schedule.
constexpr int enough_failures = 2;
// An algorithm is in doubt if its expected error is above this share of the allowed error: measured
// errors are up to a quarter larger than expected ones.
constexpr double share_of_expected_error = 0.8;

}  // namespace

std::vector<Rated> rate(std::vector<Point> points, const Score& score) {
  const std::vector<Prediction> predictions = score(points);
  std::vector<Rated> rated;
  for (size_t i = 0; i < points.size(); ++i)
    if (predictions[i].is_new()) rated.push_back({std::move(points[i]), predictions[i]});
  return rated;
}

void sort_by_score(std::vector<Rated>& points) {
  std::ranges::stable_sort(points, std::greater(),
                           [](const Rated& rated) { return rated.prediction.score; });
}

std::vector<Point> points_of(const std::vector<Rated>& rated) {
  std::vector<Point> points;
  for (const Rated& one : rated) points.push_back(one.point);
  return points;
}

std::vector<Point> random_pool(const Space& space, Random& random, size_t count) {
  std::vector<Point> pool;
  for (size_t i = 0; i < count; ++i) pool.push_back(space.sample(random));
  return pool;
}

std::vector<Point> whole(std::vector<Point> points, const StopToken& stop) {
  if (stop.is_stopped()) points.clear();
  return points;
}

Algorithms judge_algorithms(const Space& space, const std::vector<Tried>& history) {
  std::vector<int> trials(space.algorithms(), 0);
  std::vector<bool> works(space.algorithms(), false);
  works[0] = true;
  for (const Tried& tried : history) {
    const size_t algorithm = space.algorithm_of(tried.point);
    if (tried.throughput > 0) works[algorithm] = true;
    ++trials[algorithm];
  }
  Algorithms algorithms;
  for (size_t i = 0; i < trials.size(); ++i) {
    const bool in_doubt = !works[i] && is_in_doubt(space, i);
    algorithms.in_doubt.push_back(in_doubt);
    algorithms.left_alone.push_back((!works[i] && trials[i] >= enough_failures) ||
                                    (history.empty() && in_doubt));
  }
  return algorithms;
}

Score without(const Space& space, std::vector<bool> left_alone, const Score& score) {
  if (std::ranges::find(left_alone, true) == left_alone.end()) return score;
  return [&space, left_alone = std::move(left_alone), &score](const std::vector<Point>& points) {
    std::vector<Point> asked;
    for (const Point& point : points)
      if (!left_alone[space.algorithm_of(point)]) asked.push_back(point);
    const std::vector<Prediction> answers = score(asked);
    std::vector<Prediction> predictions;
    size_t next = 0;
    for (const Point& point : points)
      predictions.push_back(left_alone[space.algorithm_of(point)] ? Prediction(Standing::Illegal)
                                                                  : answers[next++]);
    return predictions;
  };
}

bool is_in_doubt(const Space& space, size_t algorithm) {
  const double allowed = std::min(dsl::error_of_fast, space.problem().most_error);
  return schedules::expected_error(space, algorithm) > share_of_expected_error * allowed;
}

}  // namespace tw::tuner
