// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integer arithmetic on quantized numbers, and requantization of its results. Private to
// graph/onnx.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {

/// Unsupported unless the elements of these inputs have 8 bits.
Status check_bytes(const Node& node, const std::vector<size_t>& inputs);

/// `value`, of 8 bits, minus the zero point, which is input `zero` of the node, or 0 if the node
/// leaves it out. The result has 16 bits, which hold every difference and for which targets have
/// dot products. Constants stay in 8 bits if the differences fit. The zero point is one number, or
/// one for each index of `axis`, or a tensor that broadcasts to the value.
Result<Value> centered(const Node& node, Builder& builder, const Value& value, size_t zero,
                       size_t axis);

/// The numbers of the inputs of a node that hold the scales of both factors (a, b) and the scale
/// and zero point of the result (y).
struct Requantization {
  size_t a_scale, b_scale, y_scale, y_zero;
};

/// round(total * a_scale * b_scale / y_scale) + y_zero, ties to even, saturated to the type of
/// y_zero. A scale of one dimension has an element for each row (a_scale) or each column (b_scale).
Result<Expr> requantized(const Node& node, Declaration& declaration, const Expr& total,
                         const Requantization& how, const Expr& row, const Expr& column);

}  // namespace tw::graph::onnx
