// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/composition.h"

#include <fmt/format.h>

#include <utility>

#include "graph/onnx/declaration.h"
#include "graph/onnx/quantization.h"

namespace tw::graph::onnx {

Status check_one_scale(const Node& node, size_t scale) {
  TW_RETURN_IF_ERROR(check_float(node, node.input(scale).type.dtype));
  if (extent_of(node.input(scale).type.shape) == 1) return {};
  return node.invalid(fmt::format("input {} is a scale of several elements", scale));
}

std::optional<Value> Composition::input(size_t i) const {
  return node_.has_input(i) ? std::optional(node_.input(i)) : std::nullopt;
}

Result<std::vector<Value>> Composition::apply_all(std::string_view op_type, Inputs inputs,
                                                  size_t outputs, Attributes attributes,
                                                  int64_t opset) {
  Node step;
  step.name = node_.name;
  step.op_type = op_type;
  step.opset = opset;
  step.inputs = std::move(inputs);
  step.attributes = std::move(attributes);
  for (size_t i = 0; i < outputs; ++i) step.outputs.push_back(builder_.fresh_name(node_.name));
  const Conversion* conversion = find_conversion(conversions(), op_type, opset);
  TW_CHECK(conversion, "a composed operator is in the table");
  TW_RETURN_IF_ERROR(conversion->convert(step, builder_));
  std::vector<Value> values;
  for (const std::string& name : step.outputs) values.push_back(builder_.value(name));
  return values;
}

Result<Value> Composition::apply(std::string_view op_type, Inputs inputs, Attributes attributes,
                                 int64_t opset) {
  TW_TRY(std::vector<Value> values,
         apply_all(op_type, std::move(inputs), 1, std::move(attributes), opset));
  return std::move(values.front());
}

Result<Value> Composition::plus(const Value& value, const std::optional<Value>& other) {
  if (!other) return value;
  TW_TRY(const Shape shape, broadcast(node_, {value.type.shape, other->type.shape}));
  if (shape != value.type.shape)
    return node_.invalid(fmt::format("'{}' does not fit what it is added to", other->name));
  return apply("Add", {value, other});
}

Result<Value> Composition::times(const Value& value, double factor) {
  if (factor == 1) return value;
  TW_TRY(const Value number, constant(value.type.dtype, factor));
  return apply("Mul", {value, number});
}

Result<Value> Composition::as_type(const Value& value, DType type) {
  if (value.type.dtype == type) return value;
  TW_TRY(const Value like, constant(type, 0));
  return apply("CastLike", {value, like});
}

Result<Value> Composition::scaled(const Value& total, const Value& a_scale, const Value& b_scale,
                                  double factor) {
  TW_TRY(const Value a, as_type(a_scale, Float32));
  TW_TRY(const Value b, as_type(b_scale, Float32));
  TW_TRY(const Value scale, apply("Mul", {a, b}));
  TW_TRY(const Value scale_of_total, times(scale, factor));
  TW_TRY(const Value number, as_type(total, Float32));
  TW_TRY(const Value product, apply("Mul", {number, scale_of_total}));
  return as_type(product, b_scale.type.dtype);
}

Result<Value> Composition::product(const Quantized& a, const Quantized& b,
                                   const std::optional<Value>& bias) {
  TW_TRY(const Value total, apply("MatMulInteger", {a.values, b.values, a.zero, b.zero}));
  TW_TRY(const Value product, scaled(total, a.scale, b.scale));
  return plus(product, bias);
}

Result<Quantized> Composition::quantized(const Value& value) {
  TW_TRY(const std::vector<Value> parts, apply_all("DynamicQuantizeLinear", {value}, 3));
  return Quantized{parts[0], parts[1], parts[2]};
}

Result<Value> Composition::dequantized(size_t first) {
  for (const size_t i : {first, first + 1})
    if (!node_.has_input(i)) return node_.invalid(fmt::format("input {} is left out", i));
  TW_RETURN_IF_ERROR(check_bytes(node_, {first}));
  TW_RETURN_IF_ERROR(check_one_scale(node_, first + 1));
  return apply("DequantizeLinear", {input(first), input(first + 1), input(first + 2)});
}

Status Composition::give_quantized(const Value& value, size_t scale, DType type) {
  if (!node_.has_input(scale)) return node_.invalid(fmt::format("input {} is left out", scale));
  TW_RETURN_IF_ERROR(check_one_scale(node_, scale));
  std::optional<Value> zero = input(scale + 1);
  if (!zero) {
    TW_TRY(zero, constant(type, 0));
  }
  TW_TRY(const Value quantized, apply("QuantizeLinear", {value, input(scale), zero}));
  return give(quantized);
}

Status Composition::give(const Value& value, size_t output) {
  if (output >= node_.outputs.size() || node_.outputs[output].empty()) return {};
  return builder_.alias(node_.outputs[output], value.name);
}

Result<Value> Composition::constant(DType type, double number) {
  TW_TRY(dsl::Array array, dsl::Array::make(type, {}));
  is_float(type) ? array.set_float(0, number) : array.set_int(0, static_cast<int64_t>(number));
  const std::string name = builder_.fresh_name(node_.name);
  TW_RETURN_IF_ERROR(builder_.add_constant(name, std::move(array)));
  return builder_.value(name);
}

}  // namespace tw::graph::onnx
