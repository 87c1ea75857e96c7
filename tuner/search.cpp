// SPDX-License-Identifier: Apache-2.0
#include "tuner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"

namespace tw::tuner {

using schedules::Point;
using schedules::Space;

namespace {

// Scoring a point costs 0.2 to 0.5 ms, building and measuring one about fifty, and half of the
// points or more are found too large while they are lowered.
constexpr size_t pool_per_pick = 32;
// Where chance chooses, the pool only has to hold enough legal points.
constexpr size_t blind_pool_per_pick = 4;
constexpr size_t parents = 12;
constexpr double random_share = 0.2;

std::vector<Point> best_of(const std::vector<Point>& pool, const Score& score, size_t count) {
  const std::vector<double> scores = score(pool);
  std::vector<size_t> order(pool.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool x = std::isfinite(scores[a]), y = std::isfinite(scores[b]);
    return x != y ? x : x && scores[a] > scores[b];
  });
  std::vector<Point> picked;
  for (const size_t i : order) {
    if (picked.size() == count || !std::isfinite(scores[i])) break;
    if (std::find(picked.begin(), picked.end(), pool[i]) == picked.end()) picked.push_back(pool[i]);
  }
  return picked;
}

/// The score's word on what is legal and new; all that is counts the same.
Score legal_only(const Score& score) {
  return [&score](const std::vector<Point>& points) {
    std::vector<double> scores = score(points);
    for (double& s : scores)
      if (std::isfinite(s)) s = 0;
    return scores;
  };
}

class Evolution : public Search {
 public:
  explicit Evolution(size_t per_pick) : pool_per_pick_(per_pick) {}

  std::vector<Point> propose(const Space& space, const Known& known, const Score& score,
                             size_t count, Random& random) override {
    const std::vector<Tried>& history = known.history;
    std::vector<Tried> ranked;
    for (const Tried& tried : history)
      if (tried.throughput > 0) ranked.push_back(tried);
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const Tried& a, const Tried& b) { return a.throughput > b.throughput; });
    if (ranked.size() > parents) ranked.resize(parents);

    std::vector<Point> pool;
    if (history.empty()) pool.push_back(space.default_point());
    // The first pool is larger: nothing has been measured yet that could stand in for it.
    const size_t size = count * pool_per_pick_ * (history.empty() ? 3 : 1);
    while (pool.size() < size) {
      if (ranked.size() < 2 || random.chance(0.25)) {
        pool.push_back(space.sample(random));
        continue;
      }
      // Better parents more often: the smaller of two draws.
      const auto draw = [&] {
        const auto n = static_cast<int64_t>(ranked.size());
        return ranked[static_cast<size_t>(std::min(random.below(n), random.below(n)))].point;
      };
      Point child = random.chance(0.4) ? space.cross(draw(), draw(), random) : draw();
      pool.push_back(space.mutate(child, random));
    }
    const auto fresh = static_cast<size_t>(std::lround(static_cast<double>(count) * random_share));
    std::vector<Point> picked = best_of(known.seeds, score, (count + 1) / 2);
    add_new(best_of(pool, score, history.empty() ? count : count - fresh), count, picked);
    add_new(best_of(random_pool(space, random, 2 * fresh), score, count), count, picked);
    return picked;
  }

 private:
  static void add_new(const std::vector<Point>& points, size_t count, std::vector<Point>& picked) {
    for (const Point& point : points)
      if (picked.size() < count && std::find(picked.begin(), picked.end(), point) == picked.end())
        picked.push_back(point);
  }

  static std::vector<Point> random_pool(const Space& space, Random& random, size_t count) {
    std::vector<Point> pool;
    for (size_t i = 0; i < count; ++i) pool.push_back(space.sample(random));
    return pool;
  }

  size_t pool_per_pick_;
};

/// Evolution without a model: among its children, chance chooses.
class Blind : public Search {
 public:
  std::vector<Point> propose(const Space& space, const Known& known, const Score& score,
                             size_t count, Random& random) override {
    return evolution_.propose(space, known, legal_only(score), count, random);
  }

 private:
  Evolution evolution_{blind_pool_per_pick};
};

class RandomSearch : public Search {
 public:
  std::vector<Point> propose(const Space& space, const Known&, const Score& score, size_t count,
                             Random& random) override {
    std::vector<Point> picked;
    // The score only says what is legal and new here.
    for (int attempt = 0; attempt < 50 && picked.size() < count; ++attempt) {
      std::vector<Point> pool;
      for (size_t i = 0; i < count; ++i) pool.push_back(space.sample(random));
      const std::vector<double> scores = score(pool);
      for (size_t i = 0; i < pool.size() && picked.size() < count; ++i)
        if (std::isfinite(scores[i]) &&
            std::find(picked.begin(), picked.end(), pool[i]) == picked.end())
          picked.push_back(pool[i]);
    }
    return picked;
  }
};

/// Counts through the space, the first knob fastest.
class Grid : public Search {
 public:
  std::vector<Point> propose(const Space& space, const Known&, const Score& score, size_t count,
                             Random&) override {
    if (next_.empty()) next_.assign(space.knobs().size(), 0);
    std::vector<Point> picked;
    for (int steps = 0; steps < 20000 && picked.size() < count && !done_; ++steps) {
      const Point point = next_;
      advance(space);
      if (space.allowed(point) && std::isfinite(score({point})[0])) picked.push_back(point);
    }
    return picked;
  }

 private:
  void advance(const Space& space) {
    for (size_t k = 0; k < next_.size(); ++k) {
      if (++next_[k] < static_cast<int>(space.knobs()[k].values.size())) return;
      next_[k] = 0;
    }
    done_ = true;
  }
  Point next_;
  bool done_ = false;
};

}  // namespace

const std::vector<SearchInfo>& searches() {
  static const std::vector<SearchInfo> table = {
      {"blind", "children of the best points, chosen by chance"},
      {"evolution", "children of the best points, chosen by the cost model (the default)"},
      {"grid", "counts through the space"},
      {"random", "uniform samples"}};
  return table;
}

Result<std::unique_ptr<Search>> make_search(std::string_view name) {
  if (name == "evolution") return std::make_unique<Evolution>(pool_per_pick);
  if (name == "blind") return std::make_unique<Blind>();
  if (name == "random") return std::make_unique<RandomSearch>();
  if (name == "grid") return std::make_unique<Grid>();
  std::vector<std::string> names;
  for (const SearchInfo& info : searches()) names.emplace_back(info.name);
  return fail(ErrorCode::Usage,
              fmt::format("[search] '{}' is no search: use one of {}", name, join(names, ", ")));
}

}  // namespace tw::tuner
