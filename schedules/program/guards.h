// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hoists and resolves guards. The tail of a split needs a guard, and so does a kernel window that
// reaches into the padding. Lowering puts such guards into an `if` around the innermost statement.
// The guards become loop bounds if possible.
//
//   for y / for ky in 0..3 / for x:  if 1 <= y + ky: s        (guards innermost)
//   for y / for ky in 0..3:  if 1 <= y + ky:  for x:  s       (hoisted)
//   for y / for ky in max(0, 1 - y)..3:  for x:  s            (trimmed)
//
// A guard that would remain inside an unrolled or vector loop is removed by peeling an outer loop.
// The iterations for which the guard always holds stay a loop. The few other iterations are written
// out with the loop variable as a constant, so that the bounds of the inner loops become constant.
// For example, if ky is unrolled, the iteration y = 0 is written out with ky in 1..3. The loop over
// the other y has ky in 0..3 and no guard.

#include <optional>

#include "schedules/program/program.h"

namespace tw::schedules {

/// Moves each condition out of the loops whose variables the condition does not use, and out of
/// vector loops if it holds for all lanes or for none.
Block hoist_guards(const Block& body);

/// Trims and peels loops without changing the program's meaning. An axis of tasks cannot be peeled;
/// instead the body gets an `if` on the value of the axis. Peeling copies statements. Returns
/// nullopt as soon as it is clear that more than `most_statements` would remain after unrolling.
std::optional<Block> resolve_guards(const Block& body, const std::vector<TaskAxis>& task_axes,
                                    int64_t most_statements);

}  // namespace tw::schedules
