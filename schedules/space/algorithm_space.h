// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a search space that belongs to one algorithm: its stages, each with the strategies
// that match it. Immutable within a space; thread-safe to share. Private to schedules/space.

#include <cstddef>
#include <span>
#include <vector>

#include "schedules/space/construction.h"
#include "schedules/space/stage_plan.h"
#include "schedules/space/stage_space.h"

namespace tw::schedules {

/// The stages of one algorithm and their strategies. The stages' decisions have the indices [begin,
/// end) in the list of all decisions of the space.
struct AlgorithmSpace {
  ComputePlan plan;
  std::vector<StageSpace> stages = {};  ///< one for each stage; they refer to `plan`
  size_t begin = 0, end = 0;
  double weight = 1;  ///< work to construct and lower a point; see weight() in space.h

  /// Makes a space without stages, for the plan of the algorithm.
  explicit AlgorithmSpace(ComputePlan made);
  AlgorithmSpace(const AlgorithmSpace&) = delete;
  AlgorithmSpace& operator=(const AlgorithmSpace&) = delete;

  bool has(size_t decision) const { return decision >= begin && decision < end; }
  /// Returns the number of points, including those that are not allowed.
  double size() const;
  /// Sets choices that have no effect to 0, i.e. choices for knobs that the chosen strategies do
  /// not have.
  void settle(std::span<int> choices) const;
  /// Appends the steps of all stages to `c`. `decisions` and `choices` are those of the whole
  /// space, not of this algorithm alone. Requires: `c` was made with `plan`.
  void construct(std::span<const int> choices, const std::vector<Knob>& decisions,
                 Construction& c) const;
};

}  // namespace tw::schedules
