// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operations on floats whose literals must not be gathered.
//
// Halide and LLVM gather the literals of a product, x * 1e38 * 10 becomes x * (1e38 * 10), and
// those of a sum, x - 3e38 - 3e38 becomes x - (3e38 + 3e38). Where that is no normal number of the
// type computed in, or, of a sum, may be none in some order, the operation is kept as it is
// declared. Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// The operation on the values of its operands, kept as it is declared; undefined where its
/// literals may be gathered, or it has none.
HExpr kept_apart(const dsl::Binary& operation, const HExpr& a, const HExpr& b);

}  // namespace tw::codegen::halide
