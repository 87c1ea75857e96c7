// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits with scales and zero points. Rounding is to the nearest, ties to even.
#include "graph/onnx/quantization.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/integer.h"
#include "dsl/few_bits.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/quantized.h"

namespace tw::graph::onnx {

Status check_bytes(const Node& node, const std::vector<size_t>& inputs) {
  for (const size_t i : inputs) {
    const DType type = node.input(i).type.dtype;
    if (type != Int8 && type != UInt8)
      return node.unsupported(fmt::format("the data type {}", to_string(type)));
  }
  return {};
}

namespace {

bool is_zero(const dsl::Array& numbers) {
  for (int64_t i = 0; i < numbers.size(); ++i)
    if (numbers.get_int(i) != 0) return false;
  return true;
}

/// Checks that the zero point, input `zero`, is one number, or has one number for each index of the
/// axis, or broadcasts to the shape `numbers`.
Status check_zero_point(const Node& node, size_t zero, const Shape& numbers, size_t axis) {
  Shape shape = node.input(zero).type.shape;
  if (shape.size() <= 1) {
    const int64_t count = extent_of(shape);
    shape.assign(numbers.size(), 1);
    shape[axis] = count;
  }
  TW_TRY(const Shape together, broadcast(node, {shape, numbers}));
  if (together == numbers) return {};
  return node.invalid(fmt::format("the zero point of input {} does not fit its numbers", zero));
}

}  // namespace

Result<Value> centered(const Node& node, Builder& builder, const Value& value, size_t zero,
                       size_t axis) {
  std::optional<Value> zeros;
  if (node.has_input(zero)) {
    TW_RETURN_IF_ERROR(check_bytes(node, {zero}));
    TW_RETURN_IF_ERROR(check_zero_point(node, zero, value.type.shape, axis));
    zeros = node.input(zero);
    if (zeros->constant && is_zero(*zeros->constant->array)) zeros.reset();
  }
  if (value.constant && !zeros) return value;
  const std::string name = builder.fresh_name(value.name);
  if (value.constant && zeros->constant && zeros->rank() <= 1) {
    auto known = without_zero_points(*value.constant->array, *zeros->constant->array, axis);
    TW_CHECK(known.has_value(), "16 bits hold the difference of two numbers of 8 bits");
    TW_RETURN_IF_ERROR(builder.add_constant(name, std::move(*known)));
    return builder.value(name);
  }
  const std::vector<Axis> axes = axes_of(value.type.shape);
  Declaration declaration(builder);
  Expr number = cast(Int32, declaration.read(value).read_at(at(axes)));
  if (zeros) {
    const std::vector<Expr> along = zeros->rank() <= 1 ? std::vector<Expr>{axes[axis]} : at(axes);
    const Tensor offsets = declaration.read(*zeros);
    number = number - cast(Int32, broadcast_read(offsets, zeros->type.shape, along));
  }
  TW_RETURN_IF_ERROR(declaration.add(compute("out", axes, cast(Int16, number)), name));
  return builder.value(name);
}

Result<Expr> requantized(const Node& node, Declaration& declaration, const Expr& total,
                         const Requantization& how, const Expr& row, const Expr& column) {
  for (const size_t i : {how.a_scale, how.b_scale, how.y_scale, how.y_zero}) {
    if (!node.has_input(i)) return node.invalid(fmt::format("input {} is missing", i));
    if (node.input(i).rank() > 1)
      return node.unsupported(fmt::format("input {} of more than one dimension", i));
    if (is_float(node.input(i).type.dtype) != (i != how.y_zero))
      return node.invalid(fmt::format("the type of input {}", i));
  }
  const auto read = [&](size_t i, const Expr& along) {
    return broadcast_read(declaration.read(node.input(i)), node.input(i).type.shape, {along});
  };
  const Expr scale = cast(Float32, read(how.a_scale, row)) *
                     cast(Float32, read(how.b_scale, column)) /
                     cast(Float32, read(how.y_scale, column));
  const Expr zero = read(how.y_zero, column);
  if (zero.type() != Int8 && zero.type() != UInt8)
    return node.unsupported(fmt::format("the data type {}", to_string(zero.type())));
  return dsl::saturated(cast(Float32, total) * scale, zero);
}

namespace {

/// Granularity of the scales: one for the tensor, one for each index of an axis, or one for each
/// block of consecutive indices of an axis.
struct Granularity {
  bool is_scalar = true;
  size_t axis = 0;
  int64_t block = 0;  ///< 0: no blocks; the scale has one dimension, that of the axis

  std::vector<Expr> index(const std::vector<Axis>& axes) const {
    std::vector<Expr> indices = at(axes);
    if (block == 0) return {indices[axis]};
    indices[axis] = indices[axis] / Expr(block);
    return indices;
  }
};

Result<Granularity> granularity_of(const Node& node) {
  const Value &value = node.input(0), &scale = node.input(1);
  TW_TRY(const int64_t block, node.integer("block_size", 0));
  Granularity g;
  if (scale.rank() == 0 || (scale.rank() == 1 && scale.type.shape[0] == 1 && block == 0)) return g;
  g.is_scalar = false;
  TW_TRY(g.axis, axis_attribute(node, 1, value.rank()));
  if (block == 0) {
    if (scale.type.shape == Shape{value.type.shape[g.axis]}) return g;
    return node.invalid("expected a scale for each index of the axis");
  }
  Shape expected = value.type.shape;
  if (block < 0) return node.invalid(fmt::format("block_size={}", block));
  expected[g.axis] = ceil_div(expected[g.axis], block);
  if (scale.type.shape != expected) return node.invalid("scales do not fit the blocks");
  g.block = block;
  return g;
}

/// An element of the scale or the zero point.
Expr read_parameter(Declaration& declaration, const Value& value, const Granularity& g,
                    const std::vector<Axis>& axes) {
  const Tensor tensor = declaration.read(value);
  if (g.is_scalar) return broadcast_read(tensor, value.type.shape, {Expr(0)});
  return tensor.read_at(g.index(axes));
}

/// Checks that the scale and the zero point have equal shapes, or one element each: [1] and [] are
/// accepted.
Status check_parameter(const Node& node) {
  if (!node.has_input(2)) return {};
  const Shape &scale = node.input(1).type.shape, &zero = node.input(2).type.shape;
  if (scale == zero || (extent_of(scale) == 1 && extent_of(zero) == 1)) return {};
  return node.invalid("scale and zero point differ in shape");
}

}  // namespace

Status convert_quantize_linear(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, node.input(1).type.dtype));
  TW_RETURN_IF_ERROR(check_parameter(node));
  TW_TRY(const Granularity g, granularity_of(node));
  const std::vector<Axis> axes = axes_of(value.type.shape);
  Declaration declaration(builder);
  const Expr x = cast(Float32, declaration.read(value).read_at(at(axes)));
  const Expr scale = cast(Float32, read_parameter(declaration, node.input(1), g, axes));
  Expr zero = dsl::constant_int(UInt8, 0);
  if (node.has_input(2)) {
    zero = read_parameter(declaration, node.input(2), g, axes);
  } else if (node.has("output_dtype")) {
    TW_TRY(const int64_t given, node.integer("output_dtype", 2));
    TW_TRY(const DType type, element_type(given == 0 ? 2 : given));
    zero = dsl::constant_int(type, 0);
  }
  if (is_float(zero.type()) || zero.type() == Bool || size_bytes(zero.type()) > 2)
    return node.unsupported(fmt::format("the data type {}", to_string(zero.type())));
  return declaration.add(compute("out", axes, dsl::saturated(x / scale, zero)), node.outputs[0]);
}

Status convert_dequantize_linear(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  const DType type = value.type.dtype;
  if (is_float(type) || type == Bool || (size_bytes(type) > 2 && type != Int32))
    return node.unsupported(fmt::format("the data type {}", to_string(type)));
  TW_RETURN_IF_ERROR(check_float(node, node.input(1).type.dtype));
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 2}));
  TW_RETURN_IF_ERROR(check_parameter(node));
  TW_TRY(const Granularity g, granularity_of(node));
  const std::vector<Axis> axes = axes_of(value.type.shape);
  Declaration declaration(builder);
  Expr x = cast(Int32, declaration.read(value).read_at(at(axes)));
  if (node.has_input(2)) x = x - cast(Int32, read_parameter(declaration, node.input(2), g, axes));
  const Expr scale = read_parameter(declaration, node.input(1), g, axes);
  TW_TRY(const int64_t given, node.integer("output_dtype", 0));
  DType to = scale.type();
  if (given != 0) {
    TW_TRY(to, element_type(given));
    TW_RETURN_IF_ERROR(check_float(node, to));
  }
  const Expr result = cast(to, cast(Float32, x) * cast(Float32, scale));
  return declaration.add(compute("out", axes, result), node.outputs[0]);
}

Status convert_dynamic_quantize_linear(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  if (value.type.dtype != Float32) return node.unsupported("another data type than f32");
  const std::vector<Axis> axes = axes_of(value.type.shape), none;
  std::vector<Axis> over = axes_of(value.type.shape, "r");
  if (over.empty()) over.emplace_back("r", 1);
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  const std::vector<Expr> element = axes.empty() ? std::vector<Expr>{} : at(over);
  const Expr zero = dsl::constant(Float32, 0);
  const Tensor high = compute("high", none, max_over(over, in.read_at(element)));
  const Tensor low = compute("low", none, min_over(over, in.read_at(element)));
  const Expr span = max(high(), zero) - min(low(), zero);
  // A span of 0 means that all elements are 0. ONNX Runtime then uses the scale 1.
  const Tensor scale = compute(
      "scale", none,
      dsl::select(eq(span, zero), dsl::constant(Float32, 1), span / dsl::constant(Float32, 255)));
  const Tensor offset = compute("offset", none, (zero - min(low(), zero)) / scale());
  const Tensor zero_point =
      compute("zero_point", none,
              cast(UInt8, clamp(dsl::round(offset()), zero, dsl::constant(Float32, 255))));
  const Tensor out =
      compute("out", axes, dsl::saturated(in.read_at(at(axes)) / scale(), zero_point()));
  return declaration.add({out, scale, zero_point}, node.outputs);
}

}  // namespace tw::graph::onnx
