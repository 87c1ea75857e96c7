// SPDX-License-Identifier: Apache-2.0
// The operators of ONNX Runtime, the domain com.microsoft, that its quantizer and its optimizer
// write into models. Each is composed of operators of the default domain, which the passes fuse.
// For example, QLinearAdd becomes DequantizeLinear of both operands, Add and QuantizeLinear.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/integer.h"
#include "graph/onnx/composition.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/quantization.h"

namespace tw::graph::onnx {
namespace {

/// The name of the operator on floats: "Add" for "QLinearAdd".
std::string_view name_of_floats(const Node& node) {
  return std::string_view(node.op_type).substr(std::string_view("QLinear").size());
}

Status check_channels_first(const Node& node) {
  TW_TRY(const int64_t last, node.integer("channels_last", 0));
  return last == 0 ? Status() : node.unsupported("channels_last=1");
}

/// Exchanges the last two dimensions if the attribute is set; a vector stays unchanged.
Result<Value> maybe_transposed(const Node& node, Builder& builder, const Value& value,
                               std::string_view attribute) {
  TW_TRY(const int64_t is_transposed, node.integer(attribute, 0));
  if (is_transposed == 0 || value.rank() < 2) return value;
  std::vector<size_t> order(value.type.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transposed(builder, value, order);
}

}  // namespace

// ---- quantized numbers ------------------------------------------------------------------------

Status convert_qlinear_operation(const Node& node, Builder& builder) {
  Composition c(node, builder);
  TW_TRY(const Value a, c.dequantized(0));
  TW_TRY(const Value b, c.dequantized(3));
  TW_TRY(const Value result, c.apply(name_of_floats(node), {a, b}));
  return c.give_quantized(result, 6, node.input(0).type.dtype);
}

Status convert_qlinear_function(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_channels_first(node));
  Composition c(node, builder);
  TW_TRY(const Value x, c.dequantized(0));
  TW_TRY(const Value result, c.apply(name_of_floats(node), {x}, node.attributes));
  return c.give_quantized(result, 3, node.input(0).type.dtype);
}

Status convert_qlinear_softmax(const Node& node, Builder& builder) {
  TW_TRY(const int64_t axis, node.integer("axis", -1));
  TW_TRY(const int64_t opset, node.integer("opset", newest_opset));
  if (opset < 1 || opset > newest_opset) return node.unsupported(fmt::format("opset={}", opset));
  Composition c(node, builder);
  TW_TRY(const Value x, c.dequantized(0));
  TW_TRY(const Value result, c.apply("Softmax", {x}, {{"axis", axis}}, opset));
  return c.give_quantized(result, 3, node.input(0).type.dtype);
}

Status convert_qlinear_concat(const Node& node, Builder& builder) {
  if (node.inputs.size() < 5 || node.inputs.size() % 3 != 2)
    return node.invalid("expected a scale, a zero point, and three inputs a part");
  Composition c(node, builder);
  Composition::Inputs parts;
  for (size_t i = 2; i < node.inputs.size(); i += 3) {
    TW_TRY(Value part, c.dequantized(i));
    parts.push_back(std::move(part));
  }
  TW_TRY(const Value joined, c.apply("Concat", parts, node.attributes));
  return c.give_quantized(joined, 0, node.input(2).type.dtype);
}

Status convert_qgemm(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 3}));
  for (const size_t i : {0, 3})
    if (node.input(i).rank() != 2) return node.invalid(fmt::format("input {} is no matrix", i));
  TW_RETURN_IF_ERROR(check_one_scale(node, 1));
  TW_RETURN_IF_ERROR(check_float(node, node.input(4).type.dtype));
  if (node.has_input(7) != node.has_input(8))
    return node.invalid("a scale or a zero point of the result without the other");
  TW_TRY(const double alpha, node.number("alpha", 1));
  TW_TRY(const Value a, maybe_transposed(node, builder, node.input(0), "transA"));
  TW_TRY(const Value b, maybe_transposed(node, builder, node.input(3), "transB"));
  Composition c(node, builder);
  TW_TRY(const Value product, c.apply("MatMulInteger", {a, b, c.input(2), c.input(5)}));
  TW_TRY(const Value total, c.plus(product, c.input(6)));
  TW_TRY(const Value result, c.scaled(total, node.input(1), node.input(4), alpha));
  if (!node.has_input(7)) return c.give(result);
  return c.give_quantized(result, 7, node.input(0).type.dtype);
}

Status convert_matmul_integer_to_float(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 1}));
  for (const size_t i : {2, 3}) TW_RETURN_IF_ERROR(check_float(node, node.input(i).type.dtype));
  Composition c(node, builder);
  TW_TRY(const Value result, c.product({node.input(0), node.input(2), c.input(4)},
                                       {node.input(1), node.input(3), c.input(5)}, c.input(6)));
  return c.give(result);
}

Status convert_dynamic_quantize_matmul(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {1}));
  TW_RETURN_IF_ERROR(check_float(node, node.input(2).type.dtype));
  Composition c(node, builder);
  TW_TRY(const Quantized a, c.quantized(node.input(0)));
  TW_TRY(const Value result, c.product(a, {node.input(1), node.input(2), c.input(3)}, c.input(4)));
  return c.give(result);
}

// ---- floats -----------------------------------------------------------------------------------

Status convert_fused_matmul(const Node& node, Builder& builder) {
  for (const char* attribute : {"transBatchA", "transBatchB"}) {
    TW_TRY(const int64_t is_moved, node.integer(attribute, 0));
    if (is_moved != 0) return node.unsupported(fmt::format("{}={}", attribute, is_moved));
  }
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const double alpha, node.number("alpha", 1));
  TW_TRY(const Value a, maybe_transposed(node, builder, node.input(0), "transA"));
  TW_TRY(const Value b, maybe_transposed(node, builder, node.input(1), "transB"));
  Composition c(node, builder);
  TW_TRY(const Value product, c.apply("MatMul", {a, b}));
  TW_TRY(const Value result, c.times(product, alpha));
  return c.give(result);
}

Status convert_contributed_gelu(const Node& node, Builder& builder) {
  const bool is_fast = node.op_type == "FastGelu";
  Composition c(node, builder);
  TW_TRY(const Value x, c.plus(node.input(0), c.input(1)));
  TW_TRY(const Value result, c.apply("Gelu", {x}, {{"approximate", is_fast ? "tanh" : "none"}}));
  return c.give(result);
}

Status convert_quick_gelu(const Node& node, Builder& builder) {
  TW_TRY(const double alpha, node.number("alpha", 1.702));
  Composition c(node, builder);
  TW_TRY(const Value result, c.apply("Swish", {node.input(0)}, {{"alpha", alpha}}));
  return c.give(result);
}

Status convert_skip_normalization(const Node& node, Builder& builder) {
  const bool is_root = node.op_type == "SkipSimplifiedLayerNormalization";
  TW_TRY(const double epsilon, node.number("epsilon", 1e-12));
  Composition c(node, builder);
  TW_TRY(const Value skipped, c.plus(node.input(0), c.input(1)));
  TW_TRY(const Value sum, c.plus(skipped, c.input(is_root ? 3 : 4)));
  const Composition::Inputs inputs = is_root ? Composition::Inputs{sum, node.input(2)}
                                             : Composition::Inputs{sum, node.input(2), c.input(3)};
  TW_TRY(const Value result, c.apply(is_root ? "RMSNormalization" : "LayerNormalization", inputs,
                                     {{"epsilon", epsilon}}));
  TW_RETURN_IF_ERROR(c.give(sum, 3));
  return c.give(result);
}

}  // namespace tw::graph::onnx
