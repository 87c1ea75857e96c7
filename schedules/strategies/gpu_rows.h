// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the strategies for GPUs: stages that are computed inside the block of
// threads of their consumer, and rows that the threads of a block reduce together. Free functions;
// thread-safe.

#include "schedules/construction.h"

namespace tw::schedules {

/// Computes the stage in a block of its consumer, by the threads that this has: a row each where it
/// reduces rows, else an element each.
void place_in_block(Construction& c, const StagePlan& plan, const Site& site);

/// Partial sums of a row by the threads of a block, which a warp adds up. Requires: an rfactor of
/// the stage's last reduction axis.
void append_partial_sums(Construction& c, const StagePlan& plan);

/// The site `loop` of a stage whose blocks are rows. Only producers of an output are computed in
/// its blocks: a stage between them would be computed in no block of the output.
Site rows_of(const StagePlan& plan, const std::string& loop, int64_t threads);

}  // namespace tw::schedules
