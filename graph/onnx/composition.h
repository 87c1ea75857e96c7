// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Composition converts a node of ONNX Runtime's own operator domain by composing operators of the
// default ONNX domain. The passes over graphs fuse these operators again.
//
//   Composition c(node, builder);
//   TW_TRY(const Value sum, c.apply("Add", {c.input(0), c.input(1)}));
//   return c.give(sum);
//
// An error of a composed operator names the node and this operator, as in "[onnx] node 'a' (Add):
// why" for a node 'a' that is a QLinearAdd. Private to graph/onnx.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/onnx/node.h"

namespace tw::graph::onnx {

/// Checks that input `scale` of the node is a single float, since the functions of this file
/// support one scale for a whole tensor only. Fails with Invalid if the input has more elements,
/// and with Unsupported if its type is no float.
Status check_one_scale(const Node& node, size_t scale);

/// A quantized tensor of 8 bits, which stands for (values - zero) * scale. A `zero` of nullopt
/// stands for 0.
struct Quantized {
  Value values, scale;
  std::optional<Value> zero;
};

class Composition {
 public:
  using Attributes = std::map<std::string, AttributeValue>;
  using Inputs = std::vector<std::optional<Value>>;

  /// `node` and `builder` must outlive the composition.
  Composition(const Node& node, Builder& builder) : node_(node), builder_(builder) {}

  /// Input `i` of the node; nullopt if the node leaves it out.
  std::optional<Value> input(size_t i) const;

  /// apply_all() adds the operator `op_type` of the default domain and returns its first `outputs`
  /// outputs. apply() returns the first output only. A nullopt in `inputs` leaves an optional input
  /// out. Requires: the operator exists at opset `opset`, and `inputs` has all inputs that it
  /// needs.
  Result<std::vector<Value>> apply_all(std::string_view op_type, Inputs inputs, size_t outputs,
                                       Attributes attributes = {}, int64_t opset = newest_opset);
  Result<Value> apply(std::string_view op_type, Inputs inputs, Attributes attributes = {},
                      int64_t opset = newest_opset);

  /// Returns value + other, or `value` if `other` is nullopt. Fails with Invalid unless `other`
  /// broadcasts to the shape of `value`.
  Result<Value> plus(const Value& value, const std::optional<Value>& other);
  /// Returns value * factor. Requires: the elements of `value` are floats.
  Result<Value> times(const Value& value, double factor);
  /// Returns the value with its elements converted to `type`, as ONNX's Cast does.
  Result<Value> as_type(const Value& value, DType type);

  /// Returns total * a_scale * b_scale * factor, in the type of `b_scale`. `total` is the i32
  /// result of a product of quantized factors. The arithmetic is f32, since totals and products of
  /// scales may exceed f16.
  Result<Value> scaled(const Value& total, const Value& a_scale, const Value& b_scale,
                       double factor = 1);
  /// Returns the product of two quantized matrices as real numbers, plus the bias unless it is
  /// nullopt. The result has the type of the scale of `b`.
  Result<Value> product(const Quantized& a, const Quantized& b, const std::optional<Value>& bias);
  /// Quantizes the value to u8. The scale and the zero point follow from the range of its elements,
  /// as in ONNX's DynamicQuantizeLinear.
  Result<Quantized> quantized(const Value& value);

  /// Dequantizes input `first` of the node. The input after it is its scale, and the next is its
  /// zero point, which may be left out. Fails with Invalid if the input or its scale is left out,
  /// and as check_bytes() and check_one_scale() do.
  Result<Value> dequantized(size_t first);
  /// Quantizes `value` and makes the result output 0 of the node. Input `scale` of the node is the
  /// scale, and the input after it is the zero point. If the zero point is left out, it is 0 and
  /// the output has the type `type`.
  Status give_quantized(const Value& value, size_t scale, DType type);
  /// Makes `value` the output of the node with the index `output`. Does nothing if nothing reads
  /// this output.
  Status give(const Value& value, size_t output = 0);

 private:
  Result<Value> constant(DType type, double number);

  const Node& node_;
  Builder& builder_;
};

}  // namespace tw::graph::onnx
