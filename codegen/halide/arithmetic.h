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

/// Returns the comparison with an infinite literal as one of bits. LLVM assumes that no result of
/// an operation on floats is NaN or infinite, and would replace the comparison by a constant.
/// nullptr if the operation is no such comparison. `a` and `b` are the translated operands.
HExpr comparison_with_infinity(const dsl::Binary& operation, const HExpr& a, const HExpr& b);

}  // namespace tw::codegen::halide
