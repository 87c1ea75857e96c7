// SPDX-License-Identifier: Apache-2.0
#pragma once
// finish(): the pass of lower() that turns logical indices into those of layouts, and simplifies
// expressions by what is known of the loops around them.

#include <vector>

#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Replaces the bodies of phases. `arguments` are those of the program. Loops of one iteration are
/// removed, and unrolled loops that choose between expressions are written out. Pure and
/// deterministic.
void finish(const Nest& nest, const std::vector<Argument>& arguments, std::vector<Phase>& phases);

}  // namespace tw::schedules
