// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/declaration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/integer.h"
#include "graph/rewrite.h"

namespace tw::graph::onnx {

// ---- axes and indices -----------------------------------------------------------------------

std::vector<Axis> axes_of(const Shape& shape, const std::string& stem) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < shape.size(); ++i)
    axes.emplace_back(fmt::format("{}{}", stem, i), shape[i]);
  return axes;
}

std::vector<Expr> at(const std::vector<Axis>& axes) { return {axes.begin(), axes.end()}; }

int64_t extent_of(const Shape& shape, size_t first, size_t last) {
  constexpr int64_t beyond = int64_t{1} << 60;
  int64_t product = 1;
  for (size_t i = first; i < last; ++i) product = checked_mul(product, shape[i]).value_or(beyond);
  return std::min(product, beyond);
}
int64_t extent_of(const Shape& shape) { return extent_of(shape, 0, shape.size()); }

Result<size_t> axis_of(const Node& node, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return node.invalid(fmt::format("axis {} of a tensor of {} dimensions", axis, rank));
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<size_t>> axes_of_list(const Node& node, const std::vector<int64_t>& axes,
                                         int64_t rank) {
  std::vector<size_t> positions;
  for (const int64_t axis : axes) {
    TW_TRY(const size_t position, axis_of(node, axis, rank));
    if (std::ranges::find(positions, position) != positions.end())
      return node.invalid(fmt::format("axis {} is given twice", axis));
    positions.push_back(position);
  }
  return positions;
}

Result<size_t> axis_attribute(const Node& node, int64_t otherwise, int64_t rank) {
  TW_TRY(const int64_t axis, node.integer("axis", otherwise));
  return axis_of(node, axis, rank);
}

Result<Shape> broadcast(const Node& node, const std::vector<Shape>& shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape result(rank, 1);
  for (const Shape& shape : shapes)
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& extent = result[rank - shape.size() + i];
      if (shape[i] == extent || shape[i] == 1) continue;
      if (extent != 1)
        return node.invalid(fmt::format("shapes {} do not broadcast", fmt::join(shapes, ", ")));
      extent = shape[i];
    }
  return result;
}

Expr broadcast_read(const Tensor& tensor, const Shape& shape, const std::vector<Expr>& indices) {
  std::vector<Expr> own;
  for (size_t i = 0; i < shape.size(); ++i)
    own.push_back(shape[i] == 1 ? Expr(0) : indices[indices.size() - shape.size() + i]);
  return tensor.read_at(std::move(own));
}

// ---- expressions ----------------------------------------------------------------------------

Expr number(const Expr& like, double value) { return dsl::constant(like.type(), value); }

DType wide_type(DType type) { return is_float(type) && type != Float64 ? Float32 : type; }
Expr wide(const Expr& value) { return cast(wide_type(value.type()), value); }

Expr truncate(const Expr& x) {
  if (!is_float(x.type())) return x;
  return select(x < number(x, 0), -floor(-x), floor(x));
}

Expr logistic(const Expr& x) { return number(x, 1) / (number(x, 1) + exp(-x)); }

namespace {

/// Returns x to a whole power of at least 1, by repeated squaring.
Expr whole_power(const Expr& x, int64_t exponent) {
  if (exponent == 1) return x;
  const Expr root = whole_power(x, exponent / 2);
  return exponent % 2 == 0 ? root * root : root * root * x;
}

constexpr double largest_whole_power = 16;

}  // namespace

Expr power(const Expr& x, double exponent) {
  const double magnitude = std::fabs(exponent);
  const bool is_whole = std::floor(exponent) == exponent;
  if (exponent == 0) return number(x, 1);
  if (magnitude == 0.5) {
    const Expr root = sqrt(x);
    return exponent > 0 ? root : number(x, 1) / root;
  }
  if (is_whole && magnitude <= largest_whole_power) {
    const Expr product = whole_power(x, static_cast<int64_t>(magnitude));
    return exponent > 0 ? product : number(x, 1) / product;
  }
  const Expr positive = exp(number(x, exponent) * log(is_whole ? abs(x) : x));
  if (!is_whole || std::fmod(exponent, 2) == 0) return positive;
  return select(x < number(x, 0), -positive, positive);
}

std::vector<Expr> cubic_weights(const Expr& t, double a) {
  const auto n = [&](double value) { return number(t, value); };
  const auto near = [&](const Expr& x) { return ((n(a + 2) * x - n(a + 3)) * x) * x + n(1); };
  const auto far = [&](const Expr& x) {
    return ((n(a) * x - n(5 * a)) * x + n(8 * a)) * x - n(4 * a);
  };
  return {far(t + n(1)), near(t), near(n(1) - t), far(n(2) - t)};
}

Expr all_of(const std::vector<Expr>& conditions) {
  Expr all = dsl::constant_int(Bool, 1);
  for (const Expr& condition : conditions) all = all && condition;
  return all;
}

Expr summable(const Expr& value) { return value.type() == Bool ? cast(Int32, value) : wide(value); }

Tensor reduced(const std::vector<Axis>& axes, const dsl::Reduction& reduction, DType type) {
  if (reduction.body.type() == type) return compute("out", axes, reduction);
  const Tensor total = compute("total", axes, reduction);
  return compute("out", axes, cast(type, total.read_at(at(axes))));
}

// ---- operators ------------------------------------------------------------------------------

Tensor Declaration::read(const Value& value) {
  const auto known = inputs_.find(value.name);
  if (known != inputs_.end()) return known->second;
  const std::string name = fmt::format("in{}", inputs_.size());
  tensors_[name] = value.name;
  return inputs_.emplace(value.name, dsl::input(name, value.type.dtype, axes_of(value.type.shape)))
      .first->second;
}

Status Declaration::add(const std::vector<Tensor>& stages,
                        const std::vector<std::string>& outputs) {
  std::vector<Tensor> wanted;
  std::vector<std::string> names;
  for (size_t i = 0; i < stages.size() && i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    wanted.push_back(stages[i]);
    names.push_back(outputs[i]);
  }
  if (wanted.empty()) return {};
  TW_TRY(const dsl::Compute declared, dsl::build(wanted));
  std::vector<std::string> inputs;
  for (const dsl::Input& input : declared.inputs) inputs.push_back(tensors_.at(input.name));
  return builder_.add(declared, inputs, names);
}

Status add_choice(Builder& builder, const Value& condition, const Value& then_value,
                  const Value& else_value, const std::string& output) {
  if (then_value.name == else_value.name) return builder.alias(output, then_value.name);
  const std::vector<Axis> axes = axes_of(then_value.type.shape);
  Declaration declaration(builder);
  const std::vector<Expr> only(condition.type.shape.size(), Expr(0));
  const Expr holds = declaration.read(condition).read_at(only);
  const Expr a = declaration.read(then_value).read_at(at(axes));
  const Expr b = declaration.read(else_value).read_at(at(axes));
  return declaration.add(compute("out", axes, select(holds, a, b)), output);
}

namespace {

/// Returns the value converted to another type of floats.
Result<Value> converted(Builder& builder, const Value& value, DType type) {
  const std::string name = builder.fresh_name(value.name);
  const std::vector<Axis> axes = axes_of(value.type.shape);
  Declaration declaration(builder);
  const Expr element = cast(type, declaration.read(value).read_at(at(axes)));
  TW_RETURN_IF_ERROR(declaration.add(compute("out", axes, element), name));
  return builder.value(name);
}

}  // namespace

Status add_named(Builder& builder, std::string_view op, const dsl::Attributes& attributes,
                 DType type, const std::vector<Value>& inputs, const std::string& output) {
  TW_TRY(dsl::Workload workload, dsl::make_workload(op, attributes, type));
  dsl::Compute& declared = workload.compute;
  TW_CHECK(declared.inputs.size() == inputs.size(), "an input for each that is declared");
  std::vector<std::string> names;
  bool by_name = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TW_CHECK(declared.inputs[i].shape == inputs[i].type.shape, "inputs of the declared shapes");
    Value input = inputs[i];
    // Biases of f16 and bf16 operators are declared as f32, the type of their sums.
    if (input.type.dtype == type && declared.inputs[i].type == wide_type(type) &&
        declared.inputs[i].type != type) {
      TW_TRY(input, converted(builder, input, declared.inputs[i].type));
    }
    names.push_back(input.name);
    if (!declared.inputs[i].constant || input.constant) continue;
    declared.inputs[i].constant = by_name = false;
  }
  if (by_name) return builder.add(workload, names, {output});
  return builder.add(declared, names, {output});
}

Status add_reshape(Builder& builder, const Value& value, const Shape& shape,
                   const std::string& output) {
  if (value.type.shape == shape) return builder.alias(output, value.name);
  if (value.constant) {
    dsl::Array array = *value.constant->array;
    array.shape = shape;
    return builder.add_constant(output, std::move(array));
  }
  TW_TRY(const dsl::Compute declared, reshape(value.type.dtype, value.type.shape, shape));
  return builder.add(declared, {value.name}, {output});
}

Result<Value> reshaped(Builder& builder, const Value& value, const Shape& shape) {
  if (value.type.shape == shape) return value;
  const std::string name = builder.fresh_name(value.name);
  TW_RETURN_IF_ERROR(add_reshape(builder, value, shape, name));
  return builder.value(name);
}

Status add_transpose(Builder& builder, const Value& value, const std::vector<size_t>& order,
                     const std::string& output) {
  if (std::ranges::is_sorted(order)) return builder.alias(output, value.name);
  if (value.constant) return builder.add_constant(output, permuted(*value.constant->array, order));
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  Shape shape;
  for (const size_t dimension : order) shape.push_back(value.type.shape[dimension]);
  const std::vector<Axis> axes = axes_of(shape);
  std::vector<Expr> indices(order.size());
  for (size_t i = 0; i < order.size(); ++i) indices[order[i]] = axes[i];
  return declaration.add(compute("out", axes, in.read_at(indices)), output);
}

Result<Value> transposed(Builder& builder, const Value& value, const std::vector<size_t>& order) {
  if (std::ranges::is_sorted(order)) return value;
  const std::string name = builder.fresh_name(value.name);
  TW_RETURN_IF_ERROR(add_transpose(builder, value, order, name));
  return builder.value(name);
}

Result<std::vector<Value>> inputs_from(const Node& node, size_t first) {
  std::vector<Value> values;
  for (size_t i = first; i < node.inputs.size(); ++i) {
    if (!node.has_input(i)) return node.invalid(fmt::format("input {} is left out", i));
    values.push_back(node.input(i));
  }
  return values;
}

Status check_same_type(const Node& node, const std::vector<size_t>& inputs) {
  const Value* first = nullptr;
  for (const size_t i : inputs) {
    if (!node.has_input(i)) continue;
    if (!first) first = &node.input(i);
    if (node.input(i).type.dtype != first->type.dtype)
      return node.invalid(fmt::format("input '{}' is {}, '{}' is {}: expected one type",
                                      first->name, to_string(first->type.dtype), node.input(i).name,
                                      to_string(node.input(i).type.dtype)));
  }
  return {};
}

Status check_float(const Node& node, DType type) {
  if (is_float(type)) return {};
  return node.unsupported(
      fmt::format("the data type {}: expected f32, f64, f16 or bf16", to_string(type)));
}

}  // namespace tw::graph::onnx
