// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integer arithmetic on quantized numbers, and requantization of its results. Private to
// graph/onnx.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {

/// Checks that the elements of the inputs with these indices are integers of 8 bits. Fails with
/// Unsupported otherwise.
Status check_bytes(const Node& node, const std::vector<size_t>& inputs);

/// Returns `value`, which has 8 bits, minus its zero point. Input `zero` of the node is the zero
/// point; if the node leaves this input out, the zero point is 0. The zero point is one number for
/// the whole value, or one number for each index of `axis`, or a tensor that broadcasts to the
/// value.
///
/// The result has 16 bits, since 16 bits hold every difference and targets have dot products for
/// them. Constants stay in 8 bits if 8 bits hold all differences.
Result<Value> centered(const Node& node, Builder& builder, const Value& value, size_t zero,
                       size_t axis);

/// Indices of inputs of a node such as QLinearMatMul: of the scales of the factors a and b, and of
/// the scale and the zero point of the result y.
struct Requantization {
  size_t a_scale, b_scale, y_scale, y_zero;
};

/// Returns round(total * a_scale * b_scale / y_scale) + y_zero, with ties rounded to even,
/// saturated to the type of y_zero. `total` is the sum at index (row, column) of a product. If
/// a_scale has one dimension, it has an element for each row. If another of these inputs has one
/// dimension, it has an element for each column.
Result<Expr> requantized(const Node& node, Declaration& declaration, const Expr& total,
                         const Requantization& how, const Expr& row, const Expr& column);

}  // namespace tw::graph::onnx
