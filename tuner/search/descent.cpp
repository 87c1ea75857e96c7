// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/descent.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

// Number of mutations of a perturbation. With fewer, a descent often leads back to the same local
// optimum.
constexpr int perturbing_mutations = 4;

constexpr double unusable = -std::numeric_limits<double>::infinity();

struct Place {
  Point point;
  double score = unusable;
};

/// Walks through a space, and keeps the scores of the points that it has seen.
class Walk {
 public:
  Walk(const Space& space, const Score& score, const StopToken& stop)
      : space_(space), score_(score), stop_(stop) {}

  bool is_stopped() const { return stop_.is_stopped(); }

  /// Returns the points with their scores, best first.
  std::vector<Place> ranked(const std::vector<Point>& points) {
    learn(points);
    std::vector<Place> places;
    for (const Point& point : points) places.push_back({point, known_.at(point)});
    std::stable_sort(places.begin(), places.end(),
                     [](const Place& a, const Place& b) { return a.score > b.score; });
    return places;
  }

  /// Returns `first`, and after it the usable points with the highest scores; `most` points at
  /// most. Requires: most >= 1.
  std::vector<Point> best_after(const Point& first, size_t most) const {
    std::vector<const Known*> others;
    for (const Known& one : known_)
      if (one.second > unusable && one.first != first) others.push_back(&one);
    const size_t count = std::min(most - 1, others.size());
    std::partial_sort(others.begin(), others.begin() + static_cast<ptrdiff_t>(count), others.end(),
                      [](const Known* a, const Known* b) {
                        return a->second != b->second ? a->second > b->second : a->first < b->first;
                      });
    std::vector<Point> points = {first};
    for (size_t i = 0; i < count; ++i) points.push_back(others[i]->first);
    return points;
  }

  /// Returns the local optimum that is reached from `at`. `mutations` is Descent::mutations.
  Place descend(Place at, size_t mutations, Random& random) {
    do settle(at);
    while (!is_stopped() && moves(at, mutants(at.point, mutations, random)));
    return at;
  }

 private:
  using Known = std::map<Point, double>::value_type;

  void learn(const std::vector<Point>& points) {
    std::vector<Point> fresh;
    for (const Point& point : points)
      if (known_.emplace(point, unusable).second) fresh.push_back(point);
    if (fresh.empty()) return;
    const std::vector<Prediction> predictions = score_(fresh);
    for (size_t i = 0; i < fresh.size(); ++i)
      if (predictions[i].is_new()) known_.at(fresh[i]) = predictions[i].score;
  }

  /// Moves to the best of the points if its score is higher. Returns true if it moved.
  bool moves(Place& at, const std::vector<Point>& points) {
    if (points.empty()) return false;
    Place best = ranked(points).front();
    if (best.score <= at.score) return false;
    at = std::move(best);
    return true;
  }

  /// Changes one decision after the other until no change of a single decision improves the score.
  void settle(Place& at) {
    const size_t decisions = at.point.choices.size();
    size_t unchanged = 0;
    for (size_t d = 0; unchanged < decisions && !is_stopped(); d = (d + 1) % decisions)
      unchanged = moves(at, changes(at.point, d)) ? 0 : unchanged + 1;
  }

  std::vector<Point> changes(const Point& point, size_t decision) const {
    std::vector<Point> points = space_.neighbours(point);
    std::erase_if(points, [&](const Point& next) {
      return next.choices[decision] == point.choices[decision];
    });
    return points;
  }

  std::vector<Point> mutants(const Point& point, size_t count, Random& random) const {
    std::vector<Point> points;
    for (size_t i = 0; i < count; ++i) points.push_back(space_.mutate(point, random));
    return points;
  }

  const Space& space_;
  const Score& score_;
  const StopToken& stop_;
  std::map<Point, double> known_;  // scores of points
};

}  // namespace

Result<std::vector<Point>> best_points(const Space& space, const std::vector<Point>& given,
                                       const Score& score, const Descent& descent, Random& random,
                                       size_t most, const StopToken& stop) {
  Walk walk(space, score, stop);
  std::vector<Place> starts = walk.ranked(given);
  std::vector<Point> samples;
  for (size_t i = 0; i < descent.samples && !walk.is_stopped(); ++i)
    samples.push_back(space.sample(random));
  for (Place& place : walk.ranked(samples)) starts.push_back(std::move(place));
  if (starts.size() > descent.starts) starts.resize(std::max(descent.starts, given.size()));
  Place best = starts.front();
  for (const Place& start : starts) {
    Place end = walk.descend(start, descent.mutations, random);
    if (end.score > best.score) best = std::move(end);
  }
  for (size_t i = 0; i < descent.perturbations && !walk.is_stopped(); ++i) {
    Point near = best.point;
    for (int k = 0; k < perturbing_mutations; ++k) near = space.mutate(near, random);
    Place end = walk.descend(walk.ranked({near}).front(), descent.mutations, random);
    if (end.score > best.score) best = std::move(end);
  }
  TW_RETURN_IF_ERROR(check_not_stopped(stop, "search"));
  return walk.best_after(best.point, most);
}

Result<Point> descend(const Space& space, const std::vector<Point>& given, const Score& score,
                      const Descent& descent, Random& random, const StopToken& stop) {
  TW_TRY(const std::vector<Point> best, best_points(space, given, score, descent, random, 1, stop));
  return best.front();
}

}  // namespace tw::tuner
