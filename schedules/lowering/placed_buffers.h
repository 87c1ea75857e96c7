// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffers of stages that are computed inside of other stages (compute_at): their size, their
// scope, and the indices of their elements. Such a stage is called placed. Pure functions. Private
// to lowering.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// The loop of a pipeline.
struct PipelineTrip {
  int64_t trips = 1;  ///< iterations of the loop
  int64_t ahead = 0;  ///< iterations from the start of a copy to its use
  int64_t slots() const { return std::min(ahead + 1, trips); }
};

PipelineTrip pipeline_trip(const NestLoop& loop, int64_t depth);

/// True if the producer is computed at the start of each iteration of loop `l` of the stage `s`.
/// False for a copy of results, which is placed at the loop too but runs after it.
bool is_placed_at(const StageNest& producer, const StageNest& s, const NestLoop& l);

/// True if the stage, or a stage that is computed inside of it, has thread loops.
bool phase_has_threads(const Nest& nest, const StageNest& s);

/// The scope of the buffer of a stage that is placed in loop `l` of stage `s`. Inside of thread
/// loops the buffer is private to a thread. Outside of them the threads share it, if there are any.
Scope scope_at(const Nest& nest, const StageNest& s, const NestLoop& l);

/// The buffer of a producer that is placed in loop `l` of the stage.
Buffer placed_buffer(const Nest& nest, const StageNest& s, const NestLoop& l,
                     const StageNest& producer);

/// The extents of the buffer of a placed stage.
std::vector<int64_t> buffer_extents(const Nest& nest, const StageNest& placed);

/// The indices, in the buffer of a placed stage, of the element that has the given indices in the
/// stage's region.
std::vector<Expr> buffer_indices(const Nest& nest, const StageNest& placed,
                                 std::vector<Expr> indices);

}  // namespace tw::schedules
