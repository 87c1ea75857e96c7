// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of steps that place stages in the loops of other stages. Private to lowering.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Invalid if a window, a pipeline or a prefetch is placed at a loop that cannot have it, or if
/// check_prepared() fails.
Status check_placements(const Nest& nest);

/// Invalid if a buffer is swizzled that is not in shared memory.
Status check_swizzles(const Phase& phase);

}  // namespace tw::schedules
