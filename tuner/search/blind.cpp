// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "tuner/search/evolution.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

// Points in the pool for each point that is proposed. The search chooses at random, so the pool
// only has to contain enough legal points.
constexpr size_t blind_pool_per_pick = 4;

/// Returns a score that says which points are legal and new, as `score` does, but rates all of them
/// equal.
Score legal_only(const Score& score) {
  return [&score](const std::vector<Point>& points) {
    std::vector<Prediction> predictions = score(points);
    for (Prediction& prediction : predictions)
      if (prediction.is_new()) prediction = 0.0;
    return predictions;
  };
}

/// Evolution without a model: it chooses among the children at random.
class Blind : public Search {
 public:
  std::vector<Point> propose(const Space& space, const Known& known, const Score& score,
                             size_t count, Random& random) override {
    return evolution_.propose(space, known, legal_only(score), count, random);
  }

 private:
  Evolution evolution_{blind_pool_per_pick};
};

}  // namespace

std::unique_ptr<Search> make_blind_search() { return std::make_unique<Blind>(); }

}  // namespace tw::tuner
