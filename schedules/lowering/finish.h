// SPDX-License-Identifier: Apache-2.0
#pragma once
// finish(): the pass of lower() that turns logical indices into indices of layouts, and simplifies
// expressions by the bounds of the loops around them.

#include <vector>

#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Rewrites the body of each phase. `arguments` are those of the program; they have the layouts.
/// Loops of one iteration are removed, and unrolled loops whose index chooses between expressions
/// are written out. Pure and deterministic.
void finish(const Nest& nest, const std::vector<Argument>& arguments, std::vector<Phase>& phases);

}  // namespace tw::schedules
