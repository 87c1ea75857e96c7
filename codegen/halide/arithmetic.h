// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operations of programs on values of Halide's IR. They mean what dsl/expr.h says, where Halide's
// own operators divide, shift and overflow in other ways. Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Requires: sums, differences and products of integers of 32 and 64 bits do not overflow.
HExpr arithmetic(BinaryOp op, const HExpr& a, const HExpr& b);

/// The same, where integers may overflow: they wrap.
HExpr wrapping(BinaryOp op, const HExpr& a, const HExpr& b);

HExpr arithmetic(UnaryOp op, const HExpr& a);

/// The new value of an element that `value` is added to, or combined with otherwise.
HExpr combined(Combine combine, const HExpr& old, const HExpr& value);

/// `x <= inf`: true unless x is NaN.
HExpr is_number(const HExpr& x);

}  // namespace tw::codegen::halide
