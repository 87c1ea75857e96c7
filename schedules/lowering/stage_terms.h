// SPDX-License-Identifier: Apache-2.0
#pragma once
// The expressions of a stage in terms of its loop variables: the values that it computes, the
// indices at which they are stored, and the guards. Pure functions. Private to lowering.

#include <vector>

#include "schedules/nest.h"

namespace tw::schedules {

/// Rewrites an expression of the stage, or of its epilogue, in terms of loop variables: after
/// `split c m 6`, a[m, k] becomes a[m.0 * 6 + m.1, k]. `definition` declares the axes that the
/// expression uses: it is the stage or its epilogue. A read of a placed stage gets the indices of
/// that stage's buffer (buffer_indices()).
Expr over_loops(const Nest& nest, const StageNest& s, const dsl::Stage& definition,
                const Expr& expr);
/// Returns the indices of the element that an iteration computes. They are indices of the stage's
/// buffer if the stage is placed, else of the tensor of the result.
std::vector<Expr> result_indices(const Nest& nest, const StageNest& s);
/// Returns the epilogue's expression with `reduced` in place of reads of the reduction's result.
/// For out = max(c[m, n] + bias[n], 0) and reduced = c.acc[0] it is max(c.acc[0] + bias[n], 0).
Expr epilogue_of(const Nest& nest, const StageNest& s, const Expr& reduced);

/// Returns the conjunction of the guards that use no variable of a reduction loop.
Expr spatial_guard(const StageNest& s);
/// True if the stage reduces over an axis of extent 0, so that its loops never run.
bool reduces_nothing(const StageNest& s);
/// True if the stage can accumulate without guards. All its operands must be staged
/// (cache_operand), since their buffers can be read even if a guard fails. The sums must go to an
/// accumulator (cache_write), since an accumulator also has elements for iterations beyond the end.
bool reads_staged_operands(const Nest& nest, const StageNest& s);
/// Returns the guards on reduction loops that a reduction with staged operands (cache_operand)
/// still needs, as a conjunction. A guard is not needed if the buffer of an operand holds the
/// neutral element wherever the guard fails, because the term then adds nothing.
Expr guards_not_zero_filled(const Nest& nest, const StageNest& s);

}  // namespace tw::schedules
