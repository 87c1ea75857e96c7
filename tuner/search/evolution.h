// SPDX-License-Identifier: Apache-2.0
#pragma once
// The search "evolution" (search.h), on which the searches "blind" and "spread" are built. Private
// to tuner/search. Not thread-safe.

#include <cstddef>
#include <memory>
#include <vector>

#include "cost_model/similarity.h"
#include "tuner/search/search.h"

namespace tw::tuner {

class PickedPoints;
struct Rated;

class Evolution : public Search {
 public:
  /// `per_pick` is the number of points that the search scores for each point that it proposes. On
  /// GPUs it scores fewer, and before the first trial it scores more.
  explicit Evolution(size_t per_pick) : pool_per_pick_(per_pick) {}

  std::vector<schedules::Point> propose(const schedules::Space& space, const Known& known,
                                        const Score& score, size_t count, Random& random) override;

 private:
  /// Adds points of `best` to `picked` until `picked` has `count` points. The added points differ
  /// from each other, from those in `picked` and from those of earlier proposals.
  void add_diverse(std::vector<Rated> best, size_t count, PickedPoints& picked) const;

  /// Returns the points of a batch, the most worthwhile trial first, and remembers them as
  /// proposed.
  std::vector<schedules::Point> in_order_of_trials(const std::vector<Rated>& picked);

  size_t pool_per_pick_;
  /// Features of the latest proposed kernels, oldest first.
  std::vector<cost_model::ScaledFeatures> proposed_;
};

}  // namespace tw::tuner
