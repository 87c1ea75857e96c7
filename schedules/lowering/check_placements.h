// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of what steps promise about stages that are computed inside of others. Private to
// lowering.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Invalid if a window, a pipeline or a prefetch is placed at a loop that cannot have it, or if a
/// stage is prepared that may not be.
Status check_placements(const Nest& nest);

/// Invalid where a buffer is swizzled that threads do not share.
Status check_swizzles(const Phase& phase);

}  // namespace tw::schedules
