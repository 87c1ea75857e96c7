// SPDX-License-Identifier: Apache-2.0
#pragma once
// Simplifies index expressions and conditions by the bounds of their variables.

#include "dsl/expr.h"
#include "schedules/program/affine.h"
#include "schedules/program/bounds.h"

namespace tw::schedules {

/// Returns an expression that is equal for all values in the scope of `bounds`. Affine parts are
/// put into a normal form. Divisions and modulos by literals, comparisons, min, max and select are
/// replaced by a simpler expression where the bounds allow it: for y.1 in 0..4, (y.0 * 4 + y.1) / 4
/// becomes y.0.
Expr simplify(const Expr& expr, const Bounds& bounds);

/// Returns an affine expression that is equal for all values in the scope of `bounds`. Takes the
/// terms that cannot change a quotient out of it: for z in 0..16, the atom (16 * x + z) / 48
/// becomes x / 3, and (16 * x + z) % 48 becomes 16 * (x % 3) + z. simplify() leaves such terms in,
/// because linear_index() joins a / k and a % k only if both are of the same a.
Affine reduce_divisions(const Affine& affine, const Bounds& bounds);

}  // namespace tw::schedules
