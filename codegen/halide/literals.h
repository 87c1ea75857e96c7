// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operations on floats whose literals must not be combined.
//
// Halide and LLVM combine the literals of a product, x * 1e38 * 10 -> x * (1e38 * 10), and those of
// a sum, x - 3e38 - 3e38 -> x - (3e38 + 3e38). The combined literal may overflow or be subnormal
// where the declared operations are not. An operation is kept as it is declared if the combined
// literal of its product, or that of its sum in some order, is not a normal number of the type in
// which it is computed. Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Returns the operation on the values of its operands, kept as it is declared. Undefined if its
/// literals may be combined, or if it has none.
HExpr kept_apart(const dsl::Binary& operation, const HExpr& a, const HExpr& b);

}  // namespace tw::codegen::halide
