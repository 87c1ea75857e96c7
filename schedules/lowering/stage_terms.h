// SPDX-License-Identifier: Apache-2.0
#pragma once
// The expressions of a stage in terms of its loop variables: the values that it computes, the
// indices at which they are stored, and the guards. Pure functions. Private to lowering.

#include <vector>

#include "schedules/nest.h"

namespace tw::schedules {

/// Rewrites an expression of the stage, or of its epilogue, in terms of loop variables.
/// `definition` is the declaration whose axes the expression uses. The indices of a read of a
/// placed stage become relative to the region that the placed stage's buffer holds.
Expr over_loops(const Nest& nest, const StageNest& s, const dsl::Stage& definition,
                const Expr& expr);
/// The indices of the element that an iteration computes, in the tensor or buffer of the stage's
/// result.
std::vector<Expr> result_indices(const Nest& nest, const StageNest& s);
/// The expression of the epilogue, in which `reduced` replaces the reduction's result.
Expr epilogue_of(const Nest& nest, const StageNest& s, const Expr& reduced);

/// The guards that do not depend on reduction loops.
Expr spatial_guard(const StageNest& s);
/// True if the stage reduces over an empty range, whose loops never run.
bool reduces_nothing(const StageNest& s);
/// True if the stage can accumulate without guards: all operands are staged in buffers, which can
/// be read even if a guard fails, and the sums go to an accumulator, which also has elements for
/// iterations beyond the end.
bool reads_staged_operands(const Nest& nest, const StageNest& s);
/// For a reduction whose operands are staged: the guards of its terms that no operand's buffer
/// covers by holding the neutral element where the guard fails.
Expr guards_not_zero_filled(const Nest& nest, const StageNest& s);

}  // namespace tw::schedules
