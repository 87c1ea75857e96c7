// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/find_point.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "schedules/space/algorithm_space.h"
#include "schedules/space/allowance.h"
#include "schedules/space/point_search.h"

namespace tw::schedules {
namespace {

// The largest number of points that are constructed to find the nearest point, in a space of weight
// 1. This is about a second's work.
constexpr double most_near_points = 20'000;
// The number of samples of which the best is the start of the search for the nearest point.
constexpr int nearest_samples = 50;

/// Returns the index of the algorithm of the space that rewrites the compute by the same steps.
std::optional<size_t> algorithm_of(const Space& space, const std::vector<Step>& steps) {
  const std::string wanted = rewriting_text(steps);
  for (size_t i = 0; i < space.algorithms(); ++i)
    if (rewriting_text(space.algorithm(i).plan.prologue.steps()) == wanted) return i;
  return std::nullopt;
}

/// Returns a point with these choices and this algorithm.
Point with_algorithm(const Space& space, std::vector<int> choices, size_t algorithm) {
  if (space.algorithms() > 1) choices[0] = static_cast<int>(algorithm);
  return {std::move(choices)};
}

/// Returns the point of an algorithm that has the first value of each other decision.
Point origin(const Space& space, size_t algorithm) {
  return with_algorithm(space, std::vector<int>(space.decisions().size(), 0), algorithm);
}

/// Returns the number of steps that two schedules have in common. `wanted` has the texts of the
/// steps of one schedule, sorted.
size_t common_steps(const std::vector<std::string>& wanted, const Schedule& schedule) {
  std::vector<std::string> texts, common;
  for (const Step& step : schedule.steps()) texts.push_back(to_string(step));
  std::sort(texts.begin(), texts.end());
  std::set_intersection(texts.begin(), texts.end(), wanted.begin(), wanted.end(),
                        std::back_inserter(common));
  return common.size();
}

}  // namespace

std::optional<Point> point_of(const Space& space, const Schedule& schedule,
                              int most_constructions) {
  if (schedule.error()) return std::nullopt;
  const std::optional<size_t> index = algorithm_of(space, schedule.steps());
  if (!index) return std::nullopt;
  const AlgorithmSpace& algorithm = space.algorithm(*index);
  PointSearch search;
  for (size_t d = 0; d < space.decisions().size(); ++d)
    search.counts.push_back(algorithm.has(d) ? static_cast<int>(space.decisions()[d].values.size())
                                             : 1);
  search.construct = [&](const std::vector<int>& choices, Trace& trace) {
    Construction c(algorithm.plan, &trace);
    algorithm.construct(choices, space.decisions(), c);
    return std::move(c.schedule);
  };
  const auto settled = [&](std::vector<int> choices) {
    algorithm.settle(choices);
    return with_algorithm(space, std::move(choices), *index);
  };
  search.allowed = [&](const std::vector<int>& choices) { return space.allowed(settled(choices)); };
  auto found = find_choices(search, schedule.steps(), most_constructions);
  if (!found) return std::nullopt;
  return settled(std::move(*found));
}

Result<Point> nearest_point(const Space& space, const Schedule& schedule, const StopToken& stop) {
  Allowance allowance(most_near_points, weight(space), stop);
  std::vector<std::string> wanted;
  for (const Step& step : schedule.steps()) wanted.push_back(to_string(step));
  std::sort(wanted.begin(), wanted.end());
  Random random(1);
  const Point like = origin(space, algorithm_of(space, schedule.steps()).value_or(0));
  Point best = space.sample_like(like, random);
  size_t most = common_steps(wanted, space.schedule(best));
  const auto improves = [&](const Point& point) {
    const size_t common = common_steps(wanted, space.schedule(point));
    if (common <= most) return false;
    most = common;
    best = point;
    return true;
  };
  for (int i = 0; i < nearest_samples && allowance.takes_one(); ++i)
    improves(space.sample_like(like, random));
  for (bool moves = true; moves;) {
    moves = false;
    for (const Point& point : space.neighbours(best))
      moves |= allowance.takes_one() && improves(point);
  }
  TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
  return best;
}

}  // namespace tw::schedules
