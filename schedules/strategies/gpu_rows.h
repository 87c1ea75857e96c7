// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that strategies for GPUs share. They schedule stages that are computed inside a block
// of threads of their consumer, and reductions of rows in which the threads of a block reduce each
// row together. The elements of a row are passed on in shared memory, or, at a site with a row
// (Site::row), in registers: then the same thread computes an element in all stages. Free
// functions; thread-safe.

#include "schedules/space/construction.h"

namespace tw::schedules {

/// Returns the reduction axis whose iterations the threads of a block share to compute an element
/// of the stage together: the axis of a row (StagePlan::reduces_rows) or, if the result is a single
/// number and has terms for a warp, the longest axis. Empty if a thread computes whole elements.
std::string shared_axis(const ComputePlan& compute, const StagePlan& plan);

/// Binds the loop `lane` of a stage whose result is a single number, so that a warp shares its
/// iterations: out[] += p[k] becomes acc = 0; acc += p[k]; out[] = acc. An accumulator needs a loop
/// around it, so the loop is split into an outer loop of one iteration and the loop that is bound.
/// Requires: no other loop of the stage reduces.
void combine_number(Construction& c, const std::string& stage, const std::string& lane);

/// Computes the stage inside a block of its consumer, by the threads of the block. If the stage has
/// a shared_axis(), the threads compute each element together. Otherwise each thread computes whole
/// elements.
void place_in_block(Construction& c, const StagePlan& plan, const Site& site);

/// Schedules the reduction of a row in two steps: the threads of a block compute partial sums, and
/// one warp adds them up. Requires: rfactor was applied to the stage's last reduction axis, with
/// the factor threads * vector of the site. If a thread has several of these sums (vector > 1),
/// rfactor was applied again and made blocks, one for each thread.
void append_partial_sums(Construction& c, const StagePlan& plan, const Site& site);

/// Copies to registers each tensor of memory whose row at least two stages at the site read, so
/// that the row is loaded once. Requires: the site has a row, and all its stages are constructed.
void cache_rows(Construction& c, const Site& site);

/// Returns the site at loop `loop` of a stage of which each block of threads computes a row. The
/// site has no loop if the stage itself may be computed inside of another stage.
Site rows_of(const StagePlan& plan, const std::string& loop, int64_t threads);

}  // namespace tw::schedules
