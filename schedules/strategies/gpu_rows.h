// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that strategies for GPUs share, for stages that are computed inside a block of threads
// of their consumer, and for rows that the threads of a block reduce together. Free functions;
// thread-safe.

#include "schedules/space/construction.h"

namespace tw::schedules {

/// Computes the stage in a block of its consumer, by the threads of the block. Each thread computes
/// a row if the stage reduces rows, else an element.
void place_in_block(Construction& c, const StagePlan& plan, const Site& site);

/// Schedules partial sums of a row, which the threads of a block compute, and their sum, which one
/// warp computes. Requires: an rfactor of the stage's last reduction axis.
void append_partial_sums(Construction& c, const StagePlan& plan);

/// The site at loop `loop`, of a stage each of whose blocks computes a row. If the stage may itself
/// be computed inside of another stage, the site is empty.
Site rows_of(const StagePlan& plan, const std::string& loop, int64_t threads);

}  // namespace tw::schedules
