// SPDX-License-Identifier: Apache-2.0
#pragma once
// How results of integer arithmetic become quantized numbers again. Private to graph/onnx.

#include <cstddef>

#include "base/result.h"
#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {

/// The inputs of a node that hold these scales and the zero point of the result.
struct Requantization {
  size_t a_scale, b_scale, y_scale, y_zero;
};

/// round(total * a_scale * b_scale / y_scale) + y_zero, ties to even, saturated to the type of
/// y_zero. A scale of one dimension belongs to rows (that of a) or columns (that of b).
Result<Expr> requantized(const Node& node, Declaration& declaration, const Expr& total,
                         const Requantization& how, const Expr& row, const Expr& column);

/// round(x) + zero, ties to even, saturated to the type of `zero`.
Expr saturated(const Expr& x, const Expr& zero);

}  // namespace tw::graph::onnx
