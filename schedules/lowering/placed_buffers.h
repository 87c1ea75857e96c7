// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffers of stages that are computed inside of others (compute_at): how large they are, and
// where an element lies. Pure functions. Private to lowering.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/nest.h"

namespace tw::schedules {

/// The loop of a pipeline: how many iterations it has, and how far copies run ahead of their use.
struct PipelineTrip {
  int64_t trips = 1;  ///< iterations of the loop
  int64_t ahead = 0;  ///< iterations from the start of a copy to its use
  int64_t slots() const { return std::min(ahead + 1, trips); }
};

PipelineTrip pipeline_trip(const NestLoop& loop, int64_t depth);

/// Extents of the buffer of a placed stage.
std::vector<int64_t> buffer_extents(const Nest& nest, const StageNest& placed);

/// Indices of an element of a placed stage in its buffer.
std::vector<Expr> buffer_indices(const Nest& nest, const StageNest& placed,
                                 std::vector<Expr> indices);

}  // namespace tw::schedules
