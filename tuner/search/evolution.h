// SPDX-License-Identifier: Apache-2.0
#pragma once
// The search "evolution". Other searches use it to choose among their points. Private to
// tuner/search. Not thread-safe.

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
  /// `per_pick` is the number of points that the search scores for each point that it proposes; it
  /// scores fewer on GPUs, and more in the first batch.
  explicit Evolution(size_t per_pick) : pool_per_pick_(per_pick) {}

  std::vector<schedules::Point> propose(const schedules::Space& space, const Known& known,
                                        const Score& score, size_t count, Random& random) override;

 private:
  /// Fills the batch with points that differ from each other and from those proposed before.
  void add_diverse(std::vector<Rated> best, size_t count, PickedPoints& picked) const;

  /// Orders the points of a batch, the most worthwhile trial first, and notes them as proposed.
  std::vector<schedules::Point> in_order_of_trials(const std::vector<Rated>& picked);

  size_t pool_per_pick_;
  /// Features of the latest proposed kernels, oldest first.
  std::vector<cost_model::ScaledFeatures> proposed_;
};

}  // namespace tw::tuner
