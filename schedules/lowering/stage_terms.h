// SPDX-License-Identifier: Apache-2.0
#pragma once
// The expressions of a stage over its loops: the values that it computes, where they go, and the
// guards around them. Pure functions. Private to lowering.

#include <vector>

#include "schedules/nest.h"

namespace tw::schedules {

/// An expression of the stage, or of its epilogue, over loop variables; `definition` names its
/// axes. Indices of placed stages are made relative to the regions in their buffers.
Expr over_loops(const Nest& nest, const StageNest& s, const dsl::Stage& definition,
                const Expr& expr);
/// The indices of the element that an iteration computes, in the tensor or buffer of the result.
std::vector<Expr> result_indices(const Nest& nest, const StageNest& s);
/// The epilogue's expression with `reduced` in place of the reduction's result.
Expr epilogue_of(const Nest& nest, const StageNest& s, const Expr& reduced);

/// The guards that do not depend on reduction loops.
Expr spatial_guard(const StageNest& s);
/// True if the stage reduces over an empty range, whose loops never run.
bool reduces_nothing(const StageNest& s);
/// True if all operands are staged in buffers, which can be read where guards fail, and sums go
/// to an accumulator, which also has elements for iterations beyond the end.
bool reads_staged_operands(const Nest& nest, const StageNest& s);
/// For a reduction whose operands are staged: the guards of its terms for which no operand's
/// buffer is filled with the neutral element.
Expr guards_not_zero_filled(const Nest& nest, const StageNest& s);

}  // namespace tw::schedules
