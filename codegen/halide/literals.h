// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps two operations on floats apart if their literals must not be combined.
//
// Halide and LLVM combine the literals of a product, and those of a sum:
//   x * 1e38 * 10    ->  x * (1e38 * 10)
//   x - 3e38 - 3e38  ->  x - (3e38 + 3e38)
// The combined literal may overflow or be subnormal although the operations as declared would not.
// So before an operation is translated, its literals are combined as the compilers would do, for
// sums in any order. If the result is not a normal number of the type in which the operation is
// computed, the operation is translated to a form that neither compiler changes. Private to
// codegen/halide; thread-safe.

#include <set>
#include <string>

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

using BufferNames = std::set<std::string, std::less<>>;

/// Returns the names of the buffers in which the statements may store an infinite literal. LLVM can
/// take such a literal from the store to an operation on the element that is read. The buffer of a
/// reduction counts only if the reduction may have no other terms: the initial -inf of a maximum is
/// not read if the maximum has a term.
BufferNames buffers_of_infinite_literals(const Block& body);

/// True if the expression is an infinite literal for some operands, as an attention mask is:
/// select(k <= j, 0, -inf). `infinite` names the buffers that may hold infinite literals.
bool may_be_infinite_literal(const Expr& expr, const BufferNames& infinite);

/// True if the result of the operation on an infinite number is infinite.
bool keeps_infinity(UnaryOp op);

/// Returns the operation on `a` and `b`, the translated operands, in a form that the compilers do
/// not change. Returns HExpr() if this form is not needed, because the operation has no literals or
/// its literals may be combined. `infinite` names the buffers that may hold infinite literals.
HExpr kept_apart(const dsl::Binary& operation, const HExpr& a, const HExpr& b,
                 const BufferNames& infinite);

}  // namespace tw::codegen::halide
