// SPDX-License-Identifier: Apache-2.0
#pragma once
// An operator of ONNX Runtime is composed from operators of the default domain, which the passes
// join again.
//
//   Composition c(node, builder);
//   TW_TRY(const Value sum, c.apply("Add", {c.input(0), c.input(1)}));
//   return c.give(sum);
//
// Errors are those of the operators, under the name of the node. Private to graph/onnx.

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

/// Invalid unless the input has one element, Unsupported unless that is a float: scales of these
/// operators belong to whole tensors.
Status check_one_scale(const Node& node, size_t scale);

/// (values - zero) * scale, of 8 bits. Without a zero point it is 0.
struct Quantized {
  Value values, scale;
  std::optional<Value> zero;
};

class Composition {
 public:
  using Attributes = std::map<std::string, AttributeValue>;
  using Inputs = std::vector<std::optional<Value>>;

  /// Both must outlive the composition.
  Composition(const Node& node, Builder& builder) : node_(node), builder_(builder) {}

  /// nullopt where the node leaves it out.
  std::optional<Value> input(size_t i) const;

  /// The outputs of an operator of the default domain. Requires: there is one at this opset, and it
  /// has the least number of inputs.
  Result<std::vector<Value>> apply_all(std::string_view op_type, Inputs inputs, size_t outputs,
                                       Attributes attributes = {}, int64_t opset = newest_opset);
  Result<Value> apply(std::string_view op_type, Inputs inputs, Attributes attributes = {},
                      int64_t opset = newest_opset);

  /// The sum, or the value where there is no other. Invalid unless the other broadcasts to it.
  Result<Value> plus(const Value& value, const std::optional<Value>& other);
  /// The product with a number. Requires: floats.
  Result<Value> times(const Value& value, double factor);
  /// The elements, converted as Cast does.
  Result<Value> as_type(const Value& value, DType type);

  /// An i32 total of a product of quantized factors, times these scales and a number, in the type
  /// of the scales. Totals and products of scales may leave f16, so the arithmetic is f32.
  Result<Value> scaled(const Value& total, const Value& a_scale, const Value& b_scale,
                       double factor = 1);
  /// The product of matrices, and a bias, of the type of the scales.
  Result<Value> product(const Quantized& a, const Quantized& b, const std::optional<Value>& bias);
  /// The value in u8, with the scale and the zero point of its range (DynamicQuantizeLinear).
  Result<Quantized> quantized(const Value& value);

  /// The numbers that this input and the two behind it, scale and zero point, stand for.
  Result<Value> dequantized(size_t first);
  /// Gives the output, quantized by input `scale` and the zero point behind it, or to numbers of
  /// `type` without one.
  Status give_quantized(const Value& value, size_t scale, DType type);
  /// The value is the output; nothing happens where nobody reads that.
  Status give(const Value& value, size_t output = 0);

 private:
  Result<Value> constant(DType type, double number);

  const Node& node_;
  Builder& builder_;
};

}  // namespace tw::graph::onnx
