// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "tuner/search/evolution.h"
#include "tuner/search/rated.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

/// Half of a proposal is the better half of evolution's proposal; the other half has points of all
/// predicted speeds. From such trials a model also learns about slow points, and about points that
/// it rates too high.
class Spread : public Search {
 public:
  std::vector<Point> propose(const Space& space, const Known& known, const Score& score_of_all,
                             size_t count, Random& random) override {
    std::vector<Point> picked = evolution_.propose(space, known, score_of_all, count, random);
    const size_t preferred = (count + 1) / 2;
    if (picked.size() <= preferred) return picked;
    picked.resize(preferred);
    const Score score =
        without(space, judge_algorithms(space, known.history).left_alone, score_of_all);
    const size_t size = std::min(pool_per_pick * count, std::max(known.most_points, count));
    std::vector<Rated> pool = rate(random_pool(space, random, size), score);
    sort_by_score(pool);
    const size_t others = count - preferred;
    // The rank is proportional to the square of a random share, so that points of higher score are
    // more frequent.
    for (size_t i = 0; i < others && !pool.empty(); ++i) {
      const double share = (static_cast<double>(i) + random.unit()) / static_cast<double>(others);
      const auto rank = static_cast<size_t>(share * share * static_cast<double>(pool.size()));
      const Point& point = pool[std::min(rank, pool.size() - 1)].point;
      if (std::ranges::find(picked, point) == picked.end()) picked.push_back(point);
    }
    return whole(std::move(picked), known.stop);
  }

 private:
  Evolution evolution_{pool_per_pick};
};

}  // namespace

std::unique_ptr<Search> make_spread_search() { return std::make_unique<Spread>(); }

}  // namespace tw::tuner
