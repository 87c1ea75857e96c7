// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of what steps promise about stages that are computed inside of others. Private to
// lowering.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Invalid where the loop along which a window slides, a pipeline or a prefetch cannot do so, or
/// where stages are prepared that may not be.
Status check_placements(const Nest& nest);

/// Invalid where a buffer is swizzled that threads do not share.
Status check_swizzles(const Phase& phase);

}  // namespace tw::schedules
