// SPDX-License-Identifier: Apache-2.0
#pragma once
// The search "evolution", by which others choose too. Private to tuner/search. Not thread-safe.

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
  /// `per_pick`: the points that it looks at for each pick; fewer on GPUs, more in the first batch.
  explicit Evolution(size_t per_pick) : pool_per_pick_(per_pick) {}

  std::vector<schedules::Point> propose(const schedules::Space& space, const Known& known,
                                        const Score& score, size_t count, Random& random) override;

 private:
  /// Fills the batch with points that differ from those in it and from those that were proposed.
  void add_diverse(std::vector<Rated> best, size_t count, PickedPoints& picked) const;

  /// The points of a batch in the order in which they are worth a trial, which are then proposed.
  std::vector<schedules::Point> in_order_of_trials(const std::vector<Rated>& picked);

  size_t pool_per_pick_;
  std::vector<cost_model::ScaledFeatures> proposed_;  ///< the latest, oldest first
};

}  // namespace tw::tuner
