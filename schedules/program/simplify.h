// SPDX-License-Identifier: Apache-2.0
#pragma once
// simplify(): simplifies index expressions and conditions by the facts that are known in their
// scope.

#include "dsl/expr.h"
#include "schedules/program/bounds.h"

namespace tw::schedules {

/// Returns an expression that is equal for all values in the scope of `bounds`. Affine parts are
/// normalised. Divisions and modulos by literals, comparisons, min, max and select are resolved
/// where the bounds decide them.
Expr simplify(const Expr& expr, const Bounds& bounds);

}  // namespace tw::schedules
