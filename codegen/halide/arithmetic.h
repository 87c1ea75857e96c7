// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of programs on values of Halide's IR. They mean what dsl/expr.h says; Halide's own
// operators divide, shift and overflow in other ways. Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Applies an operation. Requires: sums, differences and products of 32- and 64-bit integers do not
/// overflow.
HExpr arithmetic(BinaryOp op, const HExpr& a, const HExpr& b);

/// Like arithmetic(), but integers may overflow, and wrap.
HExpr wrapping(BinaryOp op, const HExpr& a, const HExpr& b);

HExpr arithmetic(UnaryOp op, const HExpr& a);

/// Returns the new value of an element whose old value is combined with `value`, for instance
/// added.
HExpr combined(Combine combine, const HExpr& old, const HExpr& value);

/// Returns `x <= inf`, which is true unless x is NaN.
HExpr is_number(const HExpr& x);

}  // namespace tw::codegen::halide
