// SPDX-License-Identifier: Apache-2.0
#pragma once
// Composes an operator of ONNX Runtime from operators of the default domain, which the passes fuse
// again.
//
//   Composition c(node, builder);
//   TW_TRY(const Value sum, c.apply("Add", {c.input(0), c.input(1)}));
//   return c.give(sum);
//
// Errors are those of the operators, with the name of the node. Private to graph/onnx.

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

/// Checks that input `scale` is a single float, since the operators of this file have one scale for
/// a whole tensor. Invalid if it has more elements, Unsupported if it is no float.
Status check_one_scale(const Node& node, size_t scale);

/// A quantized tensor of 8 bits, which stands for (values - zero) * scale. nullopt as `zero` means
/// 0.
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

  /// Adds an operator of the default domain and returns its outputs. Requires: opset `opset` has
  /// this operator, and `inputs` are at least as many as it needs.
  Result<std::vector<Value>> apply_all(std::string_view op_type, Inputs inputs, size_t outputs,
                                       Attributes attributes = {}, int64_t opset = newest_opset);
  Result<Value> apply(std::string_view op_type, Inputs inputs, Attributes attributes = {},
                      int64_t opset = newest_opset);

  /// value + other, or `value` if `other` is nullopt. Invalid unless `other` broadcasts to `value`.
  Result<Value> plus(const Value& value, const std::optional<Value>& other);
  /// value * factor. Requires: the value has floats.
  Result<Value> times(const Value& value, double factor);
  /// The value with its elements converted to `type`, as ONNX's Cast does.
  Result<Value> as_type(const Value& value, DType type);

  /// total * a_scale * b_scale * factor, in the type of the scales. `total` is the i32 result of a
  /// product of quantized factors. The arithmetic is f32, since totals and products of scales may
  /// exceed f16.
  Result<Value> scaled(const Value& total, const Value& a_scale, const Value& b_scale,
                       double factor = 1);
  /// The product of two matrices plus the bias, if there is one, in the type of the scales.
  Result<Value> product(const Quantized& a, const Quantized& b, const std::optional<Value>& bias);
  /// Quantizes the value to u8, with scale and zero point from the range of its elements
  /// (DynamicQuantizeLinear).
  Result<Quantized> quantized(const Value& value);

  /// Dequantizes input `first`; the two inputs after it are its scale and its zero point.
  Result<Value> dequantized(size_t first);
  /// Quantizes the value and gives it as the node's output. Input `scale` is the scale and the
  /// input after it the zero point; if there is no zero point, the output has the type `type`.
  Status give_quantized(const Value& value, size_t scale, DType type);
  /// Makes the value output number `output` of the node. Does nothing if nobody reads this output.
  Status give(const Value& value, size_t output = 0);

 private:
  Result<Value> constant(DType type, double number);

  const Node& node_;
  Builder& builder_;
};

}  // namespace tw::graph::onnx
