// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffers of stages that are computed inside of other stages (compute_at): their size, their
// scope, and the indices of their elements. Such a stage is called placed. Pure functions. Private
// to lowering.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// The iterations of a pipelined loop, and how far its copies run ahead.
struct PipelineTrip {
  int64_t trips = 1;  ///< iterations of the loop
  int64_t ahead = 0;  ///< iterations from the start of a copy to the use of its data
  int64_t slots() const { return std::min(ahead + 1, trips); }
};

/// Returns the iterations of `loop`, and how far copies into its buffers run ahead if they are
/// pipelined with this depth (StageNest::depth).
PipelineTrip pipeline_trip(const NestLoop& loop, int64_t depth);

/// True if the producer is computed at the start of each iteration of loop `l` of the stage `s`.
/// False for a copy of results (cache_result), which runs at the end of the iteration.
bool is_placed_at(const StageNest& producer, const StageNest& s, const NestLoop& l);

/// True if the stage `s`, or a stage that is computed inside of `s`, has thread loops.
bool phase_has_threads(const Nest& nest, const StageNest& s);

/// Returns the scope of the buffer of a stage that is placed in loop `l` of stage `s`. The buffer
/// is Local (private to a thread) if `l` is a thread loop or inside of one, or if the phase has no
/// threads. Otherwise the buffer is Shared by the threads.
Scope scope_at(const Nest& nest, const StageNest& s, const NestLoop& l);

/// Returns the buffer of `producer`, which is placed in loop `l` of the stage `s`.
Buffer placed_buffer(const Nest& nest, const StageNest& s, const NestLoop& l,
                     const StageNest& producer);

/// Checks a stage whose elements stay in the threads that compute them (StageNest::stored_in). One
/// of its loops must be bound to threads, and the index of each axis must be a mixed-radix number
/// whose digits are loops, as after splits: j = j.0 * 512 + j.1.0 * 4 + j.1.1. Only the outermost
/// of these loops may have a tail. Invalid otherwise.
Status check_stored(const StageNest& placed);

/// Returns the extents of the buffer of a placed stage, including its padding and the slots of its
/// pipeline. A region of 4 x 32 elements with 8 elements of padding in dimension 1 has the extents
/// {4, 40}. With a pipeline of depth 3 they are {3, 4, 40}. The buffer of a stage that is
/// `stored_in` threads has the extents of the stage's loops.
std::vector<int64_t> buffer_extents(const Nest& nest, const StageNest& placed);

/// Converts `indices`, which address an element of a placed stage's tensor, to the indices of this
/// element in the stage's buffer. If the buffer's region begins at row m.0 * 4, then [m, k] becomes
/// [m - m.0 * 4, k]. A window, padding and a pipeline change the indices further. If the stage is
/// `stored_in` threads, the indices are those of its loops: with j = j.0 * 512 + j.1.0 * 4 + j.1.1,
/// element j has the indices [j / 512, j / 4 % 128, j % 4].
std::vector<Expr> buffer_indices(const Nest& nest, const StageNest& placed,
                                 std::vector<Expr> indices);

}  // namespace tw::schedules
