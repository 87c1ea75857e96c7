// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of programs, applied to values of Halide's IR. Their meaning is that of
// dsl/expr.h; Halide's own operators divide, shift and overflow in other ways. Private to
// codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Returns `a op b`. Requires: sums, differences and products of 32- and 64-bit integers do not
/// overflow.
HExpr arithmetic(BinaryOp op, const HExpr& a, const HExpr& b);

/// Returns `a op b` like arithmetic(), but integers may overflow; they then wrap around.
HExpr wrapping(BinaryOp op, const HExpr& a, const HExpr& b);

HExpr arithmetic(UnaryOp op, const HExpr& a);

/// Returns the new value of an element whose old value is `old`: `old + value` for Combine::Sum,
/// and so on.
HExpr combined(Combine combine, const HExpr& old, const HExpr& value);

/// Returns `x <= inf`, which is true unless x is NaN.
HExpr is_number(const HExpr& x);

}  // namespace tw::codegen::halide
