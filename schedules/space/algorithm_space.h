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

/// The decisions of the stages are those with indices in [begin, end).
struct AlgorithmSpace {
  ComputePlan plan;
  std::vector<StageSpace> stages = {};  ///< the stages; they refer to `plan`
  size_t begin = 0, end = 0;
  double weight = 1;  ///< work for one point, as weight() in space.h

  /// Makes a space that has no stages yet.
  explicit AlgorithmSpace(ComputePlan made);
  AlgorithmSpace(const AlgorithmSpace&) = delete;
  AlgorithmSpace& operator=(const AlgorithmSpace&) = delete;

  bool has(size_t decision) const { return decision >= begin && decision < end; }
  /// The number of points, including those that are not allowed.
  double size() const;
  /// Sets the choices that have no effect on the stages to 0.
  void settle(std::span<int> choices) const;
  /// Appends the steps of all stages to `c`. `decisions` and `choices` are those of the whole
  /// space. Requires: `c` was made with this plan.
  void construct(std::span<const int> choices, const std::vector<Knob>& decisions,
                 Construction& c) const;
};

}  // namespace tw::schedules
