// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the strategies for GPUs: stages that are computed inside the block of
// threads of their consumer, and rows that the threads of a block reduce together. Free functions;
// thread-safe.

#include "schedules/space/construction.h"

namespace tw::schedules {

/// Computes the stage in a block of its consumer, by the block's threads: each computes a row if
/// the stage reduces rows, else an element.
void place_in_block(Construction& c, const StagePlan& plan, const Site& site);

/// Schedules the threads of a block to compute partial sums of a row, and a warp to add them up.
/// Requires: an rfactor of the stage's last reduction axis.
void append_partial_sums(Construction& c, const StagePlan& plan);

/// The site `loop` of a stage whose blocks are rows. Blocks of a stage that may be computed inside
/// of another stage are no site.
Site rows_of(const StagePlan& plan, const std::string& loop, int64_t threads);

}  // namespace tw::schedules
