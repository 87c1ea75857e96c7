// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integer arithmetic of quantized numbers, and how its results become quantized numbers again.
// Private to graph/onnx.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {

/// Unsupported unless these inputs have 8 bits.
Status check_bytes(const Node& node, const std::vector<size_t>& inputs);

/// `value`, of 8 bits, less the zero point that the node has as input `zero`, or 0 without one: in
/// 16 bits, which hold every difference, so that sums of products are dot products; constants in 8
/// where these hold them. A zero point is one number, one for each index of `axis`, or broadcasts
/// to the value.
Result<Value> centered(const Node& node, Builder& builder, const Value& value, size_t zero,
                       size_t axis);

/// The inputs of a node that hold these scales and the zero point of the result.
struct Requantization {
  size_t a_scale, b_scale, y_scale, y_zero;
};

/// round(total * a_scale * b_scale / y_scale) + y_zero, ties to even, saturated to the type of
/// y_zero. A scale of one dimension belongs to rows (that of a) or columns (that of b).
Result<Expr> requantized(const Node& node, Declaration& declaration, const Expr& total,
                         const Requantization& how, const Expr& row, const Expr& column);

}  // namespace tw::graph::onnx
