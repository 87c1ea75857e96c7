// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hoists and resolves guards. The guards of split tails and of a kernel window in the padding are
// at first an `if` around the innermost statement. Where possible they become loop bounds.
//
//   for y / for ky in 0..3 / for x:  if 1 <= y + ky: s        (guards innermost)
//   for y / for ky in 0..3:  if 1 <= y + ky:  for x:  s       (hoisted)
//   for y / for ky in max(0, 1 - y)..3:  for x:  s            (trimmed)
//
// A guard that would remain inside an unrolled or vector loop is removed by peeling an outer loop.
// The iterations for which the guard always holds stay a loop. The few other iterations are written
// out with the loop variable as a constant, which makes the bounds of the inner loops constant.

#include <optional>

#include "schedules/program/program.h"

namespace tw::schedules {

/// Moves each condition out of the loops whose variables the condition does not use.
Block hoist_guards(const Block& body);

/// Trims and peels loops without changing the program's meaning. `task_axes` cannot be peeled as
/// loops are; instead the body branches on their value. Peeling copies statements: returns nullopt
/// as soon as it is clear that more than `most_statements` would remain after unrolling.
std::optional<Block> resolve_guards(const Block& body, const std::vector<TaskAxis>& task_axes,
                                    int64_t most_statements);

}  // namespace tw::schedules
