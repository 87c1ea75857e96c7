// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of steps that place stages or prefetches in the loops of other stages. Private to
// lowering.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Checks the loops at which windows (store_at), pipelines and prefetches are placed, and calls
/// check_prepared(). Invalid if a window slides along a loop that does not run in order or in a
/// task with several threads, if a pipelined loop is not serial, if stages that depend on each
/// other are placed at one such loop, or if prefetch_lines() fails.
Status check_placements(const Nest& nest);

/// Invalid if a buffer outside of shared memory is swizzled.
Status check_swizzles(const Phase& phase);

}  // namespace tw::schedules
