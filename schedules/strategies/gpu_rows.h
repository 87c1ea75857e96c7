// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that strategies for GPUs share. They schedule stages that are computed inside a block
// of threads of their consumer, and reductions of rows in which the threads of a block reduce each
// row together. The stages of a site (Site) pass the elements of a row on in shared memory, or in
// registers if the site has a row (Site::row). With registers, one thread computes the same
// elements of the row in all stages. Free functions; thread-safe.

#include "schedules/space/construction.h"

namespace tw::schedules {

/// Returns the reduction axis whose iterations the threads of a block share. It is the axis of a
/// row (StagePlan::reduces_rows). If the result is a single number with at least as many terms as a
/// warp has threads, it is the longest axis. Empty if each element is computed by one thread.
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
/// the factor threads * vector of the site. If a thread has several of these sums (vector > 1), a
/// second rfactor with Partition::Blocks has grouped the sums of each thread.
void append_partial_sums(Construction& c, const StagePlan& plan, const Site& site);

/// If at least two stages at the site read the same row of a tensor in global memory, copies this
/// row to registers, so that it is loaded once. Requires: the site has a row, and all its stages
/// are constructed.
void cache_rows(Construction& c, const Site& site);

/// Returns the site at loop `loop` of a stage of which each block of threads computes a row. The
/// site has no loop if the stage itself may be computed inside of another stage.
Site rows_of(const StagePlan& plan, const std::string& loop, int64_t threads);

}  // namespace tw::schedules
