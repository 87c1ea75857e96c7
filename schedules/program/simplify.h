// SPDX-License-Identifier: Apache-2.0
#pragma once
// simplify(): simplifies index expressions and conditions by the bounds of their variables.

#include "dsl/expr.h"
#include "schedules/program/bounds.h"

namespace tw::schedules {

/// Returns an expression that is equal for all values in the scope of `bounds`. Affine parts are
/// put into a normal form. Divisions and modulos by literals, comparisons, min, max and select are
/// replaced by a simpler expression where the bounds allow it: for y.1 in 0..4, (y.0 * 4 + y.1) / 4
/// becomes y.0.
Expr simplify(const Expr& expr, const Bounds& bounds);

}  // namespace tw::schedules
