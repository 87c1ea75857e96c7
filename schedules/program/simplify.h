// SPDX-License-Identifier: Apache-2.0
#pragma once
// simplify(): simplifies index expressions and conditions by the facts that are known in a scope.

#include "dsl/expr.h"
#include "schedules/program/bounds.h"

namespace tw::schedules {

/// An equivalent expression within the scope: affine parts normalised, divisions and modulos by
/// literals resolved where the ranges allow, comparisons decided, min/max and select resolved.
Expr simplify(const Expr& expr, const Bounds& bounds);

}  // namespace tw::schedules
