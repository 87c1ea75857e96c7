// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffers of stages that are computed inside of others (compute_at): how large they are, who
// shares them, and where an element lies. Pure functions. Private to lowering.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// The loop of a pipeline: how many iterations it has, and how far copies run ahead of their use.
struct PipelineTrip {
  int64_t trips = 1;  ///< iterations of the loop
  int64_t ahead = 0;  ///< iterations from the start of a copy to its use
  int64_t slots() const { return std::min(ahead + 1, trips); }
};

PipelineTrip pipeline_trip(const NestLoop& loop, int64_t depth);

/// True if the producer is computed in this loop of the stage; false for a copy of results, which
/// follows the loop.
bool is_placed_at(const StageNest& producer, const StageNest& s, const NestLoop& l);

/// True if the stage, or a stage that is computed inside of it, has thread loops.
bool phase_has_threads(const Nest& nest, const StageNest& s);

/// Scope of the buffer of a stage that is placed in a loop of this one: private to a thread
/// inside of thread loops; else shared by the threads, if there are any.
Scope scope_at(const Nest& nest, const StageNest& s, const NestLoop& l);

/// The buffer of a producer that is placed in loop `l` of the stage.
Buffer placed_buffer(const Nest& nest, const StageNest& s, const NestLoop& l,
                     const StageNest& producer);

/// Extents of the buffer of a placed stage.
std::vector<int64_t> buffer_extents(const Nest& nest, const StageNest& placed);

/// Indices of an element of a placed stage in its buffer.
std::vector<Expr> buffer_indices(const Nest& nest, const StageNest& placed,
                                 std::vector<Expr> indices);

}  // namespace tw::schedules
