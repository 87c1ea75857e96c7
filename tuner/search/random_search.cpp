// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "tuner/search/rated.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

class RandomSearch : public Search {
 public:
  std::vector<Point> propose(const Space& space, const Known& known, const Score& score,
                             size_t count, Random& random) override {
    std::vector<Point> picked;
    // Only the state of a point (legal and new) is used here, not its score.
    for (int attempt = 0; attempt < 50 && picked.size() < count && !known.stop.is_stopped();
         ++attempt) {
      std::vector<Point> pool;
      for (size_t i = 0; i < count; ++i) pool.push_back(space.sample(random));
      const std::vector<Prediction> predictions = score(pool);
      for (size_t i = 0; i < pool.size() && picked.size() < count; ++i)
        if (predictions[i].is_new() &&
            std::find(picked.begin(), picked.end(), pool[i]) == picked.end())
          picked.push_back(pool[i]);
    }
    return whole(std::move(picked), known.stop);
  }
};

}  // namespace

std::unique_ptr<Search> make_random_search() { return std::make_unique<RandomSearch>(); }

}  // namespace tw::tuner
