// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/evolution.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "tuner/search/diversity.h"
#include "tuner/search/rated.h"

namespace tw::tuner {

using schedules::Point;
using schedules::Space;

/// The points of a proposal.
class PickedPoints {
 public:
  PickedPoints(const Space& space, std::vector<bool> algorithms_in_doubt)
      : space_(space), in_doubt_(std::move(algorithms_in_doubt)) {}

  /// Adds the best points of the pool that are not picked yet, until `count` points are picked.
  void add_best(std::vector<Rated> pool, size_t count) {
    sort_by_score(pool);
    add_first(std::move(pool), count);
  }
  /// Adds the first points of the pool that are not picked yet, until `count` points are picked.
  void add_first(std::vector<Rated> pool, size_t count) {
    for (Rated& rated : pool) {
      if (picked_.size() >= count) return;
      const size_t algorithm = space_.algorithm_of(rated.point);
      const auto excludes = [&](const Rated& other) {
        return other.point == rated.point ||
               (in_doubt_[algorithm] && space_.algorithm_of(other.point) == algorithm);
      };
      if (std::ranges::none_of(picked_, excludes)) picked_.push_back(std::move(rated));
    }
  }
  const std::vector<Rated>& picked() const { return picked_; }
  /// Returns the points that may still be added. An algorithm in doubt has at most one point in the
  /// batch, so its other points are left out.
  std::vector<Rated> eligible(std::vector<Rated> points) const {
    std::vector<bool> has_one(in_doubt_.size(), false);
    for (const Rated& rated : picked_) has_one[space_.algorithm_of(rated.point)] = true;
    std::erase_if(points, [&](const Rated& rated) {
      const size_t algorithm = space_.algorithm_of(rated.point);
      const bool is_excess = in_doubt_[algorithm] && has_one[algorithm];
      has_one[algorithm] = true;
      return is_excess;
    });
    return points;
  }

 private:
  const Space& space_;
  std::vector<bool> in_doubt_;
  std::vector<Rated> picked_;
};

namespace {

// Points in the pool for each pick on GPUs. There nearly all points are legal, and scoring one
// takes one to three milliseconds.
constexpr size_t gpu_pool_per_pick = 16;
constexpr size_t parents = 12;
// In a space of several stages a sample is good only if the choices for all stages are good; in a
// GPU's space, only if about twenty decisions fit each other. In such spaces half of the first pool
// consists of descendants of the best-rated samples. These descendants are made in up to
// most_generations generations, of at least least_generation points each.
constexpr size_t most_generations = 8, least_generation = 48;
// Number of best-rated points from which each pick is chosen.
constexpr size_t shortlist_per_pick = 4;
// Share of a batch that is taken from random samples, once there are trials.
constexpr double random_share = 0.125;
// Number of the latest proposed kernels from which a batch has to differ.
constexpr size_t most_proposed = 128;
// If more than the share most_far_behind of the latest batch was slower than the best trial by the
// factor far_behind, the neighbourhood of the best points is exhausted, or the model is wrong about
// it. Then the share widened_random_share of the next batch is random.
constexpr double far_behind = 1.25, most_far_behind = 0.75, widened_random_share = 0.5;

/// True if most of the latest `count` trials were far slower than the best trial of all; false if
/// there are fewer than 2 * `count` trials.
bool is_stuck(const std::vector<Tried>& history, size_t count) {
  if (history.size() < 2 * count) return false;
  double best = 0;
  for (const Tried& tried : history) best = std::max(best, tried.throughput);
  const auto behind =
      std::count_if(history.end() - static_cast<std::ptrdiff_t>(count), history.end(),
                    [&](const Tried& tried) { return tried.throughput * far_behind < best; });
  return static_cast<double>(behind) > most_far_behind * static_cast<double>(count);
}

/// Returns the points, best first, each once.
std::vector<Rated> distinct(std::vector<Rated> points) {
  sort_by_score(points);
  std::set<Point> seen;
  std::erase_if(points, [&](const Rated& rated) { return !seen.insert(rated.point).second; });
  return points;
}

/// Returns the first points, at most `count`.
std::vector<Rated> first_of(std::vector<Rated> points, size_t count) {
  const size_t kept = std::min(points.size(), count);
  points.erase(points.begin() + static_cast<std::ptrdiff_t>(kept), points.end());
  return points;
}

using Proposed = std::vector<cost_model::ScaledFeatures>;

/// Returns up to `count` of the points, the most worthwhile trial first, given the kernels in
/// `proposed` (diversity.h). If any point has no features, returns the first `count` points.
std::vector<Rated> diversify(std::vector<Rated> points, const Proposed& proposed, size_t count) {
  std::vector<BatchCandidate> candidates;
  for (const auto& [point, prediction] : points)
    if (!prediction.features.empty())
      candidates.push_back({prediction.score, cost_model::ScaledFeatures(prediction.features)});
  if (candidates.size() < points.size()) return first_of(std::move(points), count);
  std::vector<Rated> chosen;
  for (const size_t i : choose_diverse(candidates, proposed, count))
    chosen.push_back(std::move(points[i]));
  return chosen;
}

/// Returns the factor by which the first pool is larger than later pools, because it has no trials
/// to start from. The factor is larger for a chain of stages, since each stage has decisions of its
/// own.
size_t first_pool_factor(const Space& space) { return space.stages(0) > 1 ? 9 : 3; }

/// True if good points of the algorithm are rare among samples.
bool has_rare_points(const Space& space, size_t algorithm) {
  return space.target().is_gpu() || space.stages(algorithm) > 1;
}

/// Returns a mutation of a parent or of a mixture of two parents. A parent is the point at the
/// smaller of two random indices, so that better points, which come first in `ranked`, have more
/// children.
Point child_of(const Space& space, const std::vector<Point>& ranked, Random& random) {
  const auto draw = [&] {
    const auto n = static_cast<int64_t>(ranked.size());
    return ranked[static_cast<size_t>(std::min(random.below(n), random.below(n)))];
  };
  const Point child = random.chance(0.4) ? space.cross(draw(), draw(), random) : draw();
  return space.mutate(child, random);
}

/// Returns a new point for the first pool. If `descends` is true and good points are rare among
/// samples, it is a child of the ranked points; otherwise it is a sample of their algorithm. If
/// there are no ranked points, it is a sample of the whole space.
Point next_point(const Space& space, const std::vector<Point>& ranked, bool descends,
                 Random& random) {
  if (ranked.empty()) return space.sample(random);
  const bool has_children = descends && has_rare_points(space, space.algorithm_of(ranked.front()));
  return has_children ? child_of(space, ranked, random) : space.sample_like(ranked.front(), random);
}

/// Returns the best points of the algorithm that the best-rated point has; none if no point is
/// legal. With `only_fused`, if the algorithm is the direct one, returns the best points that fuse
/// the chain, if there are any. Fusing a chain gains only if all of its stages are scheduled for
/// it, so the first fused points are rated lower than others, although their descendants may be
/// better.
std::vector<Point> parents_of_generation(const Space& space, const std::vector<Rated>& rated,
                                         bool only_fused) {
  std::vector<Point> best, fused;
  if (rated.empty()) return best;
  const size_t algorithm = space.algorithm_of(rated.front().point);
  for (const Rated& one : rated) {
    if (space.algorithm_of(one.point) != algorithm) continue;
    if (best.size() < parents) best.push_back(one.point);
    if (fused.size() < parents && schedules::is_fused(space, one.point)) fused.push_back(one.point);
  }
  return only_fused && algorithm == 0 && !fused.empty() ? fused : best;
}

/// Makes the pool of the first proposal. If the space has one algorithm whose good points are not
/// rare, the whole pool consists of samples. Otherwise its first half has the default point and
/// samples of all algorithms, and the second half has points of the algorithm that is then rated
/// best. These are descendants of the best-rated points if good points are rare and the pool is
/// large enough to have good parents; otherwise samples.
std::vector<Rated> first_pool(const Space& space, const Known& known, const Score& score,
                              size_t size, Random& random) {
  const Result<Point> first = space.default_point(known.stop);
  if (!first) return {};
  std::vector<Point> pool = {*first};
  const bool only_samples = space.algorithms() == 1 && !has_rare_points(space, 0);
  const size_t first_samples = only_samples ? size : size / 2;
  while (pool.size() < first_samples && !known.stop.is_stopped())
    pool.push_back(space.sample(random));
  std::vector<Rated> rated = rate(std::move(pool), score);
  const size_t rest = size - first_samples;
  const size_t generations = std::clamp<size_t>(rest / least_generation, 1, most_generations);
  for (size_t i = 0; i < generations && rest > 0 && !known.stop.is_stopped(); ++i) {
    sort_by_score(rated);
    const std::vector<Point> ranked = parents_of_generation(space, rated, i % 2 == 1);
    std::vector<Point> more;
    while (more.size() < rest / generations)
      more.push_back(next_point(space, ranked, generations > 1, random));
    for (Rated& point : rate(std::move(more), score)) rated.push_back(std::move(point));
  }
  return rated;
}

/// Makes the pool of a later proposal: samples, and children of the fastest trials. `ranked` has
/// these trials, the fastest first.
std::vector<Rated> children(const Space& space, const Known& known, const Score& score,
                            const std::vector<Tried>& ranked, size_t size, Random& random) {
  std::vector<Point> fastest, pool;
  for (const Tried& tried : ranked) fastest.push_back(tried.point);
  while (pool.size() < size && !known.stop.is_stopped())
    pool.push_back(fastest.size() < 2 || random.chance(0.25) ? space.sample(random)
                                                             : child_of(space, fastest, random));
  return rate(std::move(pool), score);
}

}  // namespace

std::vector<Point> Evolution::propose(const Space& space, const Known& known,
                                      const Score& score_of_all, size_t count, Random& random) {
  const std::vector<Tried>& history = known.history;
  Algorithms algorithms = judge_algorithms(space, history);
  const Score score = without(space, std::move(algorithms.left_alone), score_of_all);
  std::vector<Tried> ranked;
  for (const Tried& tried : history)
    if (tried.throughput > 0) ranked.push_back(tried);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Tried& a, const Tried& b) { return a.throughput > b.throughput; });
  if (ranked.size() > parents) ranked.resize(parents);

  const size_t per_pick =
      space.target().is_gpu() ? std::min(gpu_pool_per_pick, pool_per_pick_) : pool_per_pick_;
  const size_t size = std::min(count * per_pick * (history.empty() ? first_pool_factor(space) : 1),
                               std::max(known.most_points, count));
  std::vector<Rated> rated = history.empty() ? first_pool(space, known, score, size, random)
                                             : children(space, known, score, ranked, size, random);
  PickedPoints picked(space, std::move(algorithms.in_doubt));
  const std::vector<Rated> seeds = rate(known.seeds, score);
  picked.add_best(seeds, count / 2);
  rated.insert(rated.end(), seeds.begin(), seeds.end());
  const double share = is_stuck(history, count) ? widened_random_share : random_share;
  const size_t samples =
      history.empty() ? 0 : static_cast<size_t>(std::lround(static_cast<double>(count) * share));
  add_diverse(distinct(std::move(rated)), count - samples, picked);
  if (samples > 0) picked.add_best(rate(random_pool(space, random, 4 * samples), score), count);
  return whole(in_order_of_trials(picked.picked()), known.stop);
}

void Evolution::add_diverse(std::vector<Rated> best, size_t count, PickedPoints& picked) const {
  Proposed before = proposed_;
  for (const Rated& seed : picked.picked())
    if (!seed.prediction.features.empty()) before.emplace_back(seed.prediction.features);
  // `best` includes the seeds, which are picked already.
  best = first_of(picked.eligible(std::move(best)), shortlist_per_pick * count);
  picked.add_first(diversify(std::move(best), before, count + picked.picked().size()), count);
}

std::vector<Point> Evolution::in_order_of_trials(const std::vector<Rated>& picked) {
  const std::vector<Rated> ordered = diversify(distinct(picked), proposed_, picked.size());
  for (const Rated& one : ordered)
    if (const auto& features = one.prediction.features; !features.empty())
      proposed_.emplace_back(features);
  if (proposed_.size() > most_proposed)
    proposed_.erase(proposed_.begin(), proposed_.end() - most_proposed);
  return points_of(ordered);
}

std::unique_ptr<Search> make_evolution_search() {
  return std::make_unique<Evolution>(pool_per_pick);
}

}  // namespace tw::tuner
