// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of steps that place stages or prefetches in the loops of other stages. Private to
// lowering.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Checks the loops at which windows (store_at), pipelines and prefetches are placed, and calls
/// check_prepared(). Invalid
///   - if the iterations of the loop along which a window slides do not run in order,
///   - if one stage has a window and any stage of the nest has thread loops,
///   - if the loop of a pipeline is not serial,
///   - if pipelines at one loop have different depths, or there is a window at the loop too,
///   - if a stage with a window or pipeline reads a stage that is computed at the same loop, or
///   - if prefetch_lines() or check_prepared() fails.
Status check_placements(const Nest& nest);

/// Invalid if a buffer outside of shared memory is swizzled.
Status check_swizzles(const Phase& phase);

}  // namespace tw::schedules
