// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hoists and resolves guards. Tails of splits and positions of a kernel window in the padding start
// as an `if` around the innermost statement and end, where possible, as loop bounds.
//
//   for y / for ky in 0..3 / for x:  if 1 <= y + ky: s        (guards innermost)
//   for y / for ky in 0..3:  if 1 <= y + ky:  for x:  s       (hoisted)
//   for y / for ky in max(0, 1 - y)..3:  for x:  s            (trimmed)
//
// A guard that would be left inside an unrolled or vector loop is resolved by peeling: the
// iterations of an outer loop for which it always holds stay a loop, and the few others are written
// out with their variable as a constant, which makes the inner bounds constant.

#include <optional>

#include "schedules/program/program.h"

namespace tw::schedules {

/// Moves conditions out of every loop whose variable they do not use.
Block hoist_guards(const Block& body);

/// Trims and peels loops without changing the program's meaning; `task_axes` are peeled by branches
/// on their value. Returns nullopt as soon as it is clear that more than `most_statements` would be
/// left after unrolling: peeling makes copies, and a body that is too large need not be completed.
std::optional<Block> resolve_guards(const Block& body, const std::vector<TaskAxis>& task_axes,
                                    int64_t most_statements);

}  // namespace tw::schedules
