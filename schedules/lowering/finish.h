// SPDX-License-Identifier: Apache-2.0
#pragma once
// finish(): the pass of lower() that turns logical indices into indices of the storage layout, and
// simplifies expressions by the bounds of the loops around them. For in[n, c, y, x] in the layout
// NCHW16c, the indices become [n, c / 16, y, x, c % 16].

#include <vector>

#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Rewrites the body of each phase. The layouts of tensors come from `arguments`, the arguments of
/// the program, and from the nest. Loops of one iteration are removed. An unrolled loop is written
/// out if its variable chooses between expressions, as p does in select(p == 0, a, b). Pure and
/// deterministic.
void finish(const Nest& nest, const std::vector<Argument>& arguments, std::vector<Phase>& phases);

}  // namespace tw::schedules
