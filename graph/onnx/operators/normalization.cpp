// SPDX-License-Identifier: Apache-2.0
// Normalizations and softmax. If the normalized dimensions are the last ones, they become named
// operators (dsl::operators()) on reshaped arrays; these reshapes move nothing.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/rows.h"

namespace tw::graph::onnx {
namespace {

std::vector<size_t> dimensions_from(size_t first, size_t rank) {
  std::vector<size_t> dimensions(rank - first);
  std::iota(dimensions.begin(), dimensions.end(), first);
  return dimensions;
}

/// Returns `total`, a sum over each row, divided by the number of elements of a row.
Expr over_length(const Expr& total, const Rows& rows) {
  return total / number(total, static_cast<double>(rows.length()));
}

/// Returns the stage "mean": the mean of x over each row, in the type in which x is summed.
Tensor mean_of(const Rows& rows, const Tensor& x) {
  const Tensor total = compute("total", rows.kept, sum(rows.over, wide(x.read_at(rows.element()))));
  return compute("mean", rows.kept, over_length(total.read_at(at(rows.kept)), rows));
}

/// Returns the stage "deviation": sqrt(mean of (x - mean)^2 + epsilon) over each row.
Tensor deviation_of(const Rows& rows, const Tensor& x, const Tensor& mean, double epsilon) {
  const Expr difference = wide(x.read_at(rows.element())) - mean.read_at(at(rows.kept));
  const Tensor spread = compute("spread", rows.kept, sum(rows.over, difference * difference));
  const Expr variance = over_length(spread.read_at(at(rows.kept)), rows);
  return compute("deviation", rows.kept, sqrt(variance + number(variance, epsilon)));
}

/// Returns (x - mean) / deviation at the elements of the tensor, in the type in which x is summed.
Expr normalized(const Rows& rows, const Tensor& x, double epsilon) {
  const Tensor mean = mean_of(rows, x);
  const Tensor deviation = deviation_of(rows, x, mean, epsilon);
  const std::vector<Expr> row = at(rows.kept);
  return (wide(x.read_at(at(rows.all))) - mean.read_at(row)) / deviation.read_at(row);
}

Status check_channels(const Node& node, const std::vector<size_t>& inputs, int64_t channels) {
  for (const size_t i : inputs)
    if (node.input(i).type.shape != Shape{channels})
      return node.invalid(
          fmt::format("expected input {} to have a number for each of {} channels", i, channels));
  return {};
}

Status check_image(const Node& node) {
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  if (node.input(0).rank() >= 2) return {};
  return node.invalid("expected a batch and channels");
}

}  // namespace

// ---- with known statistics ------------------------------------------------------------------

Status convert_batch_normalization(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const int64_t trains, node.integer("training_mode", 0));
  TW_TRY(const int64_t spatial, node.integer("spatial", 1));
  TW_TRY(const double epsilon, node.number("epsilon", 1e-5));
  if (trains || !spatial) return node.unsupported("training_mode=1 or spatial=0");
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) return node.unsupported("statistics of a batch");
  const Value& value = node.input(0);
  const int64_t channels = value.rank() < 2 ? 1 : value.type.shape[1];
  TW_RETURN_IF_ERROR(check_channels(node, {1, 2, 3, 4}, channels));
  // The result is x * factor + shift. Factor and shift are computed at import if the statistics are
  // constants.
  const std::vector<Axis> c = {Axis("c", channels)};
  const std::string factor = builder.fresh_name(node.outputs[0]);
  const DType type = wide_type(value.type.dtype);
  Declaration first(builder);
  const Expr scale = cast(type, first.read(node.input(1))(c[0]));
  const Expr variance = cast(type, first.read(node.input(4))(c[0]));
  TW_RETURN_IF_ERROR(
      first.add(compute("out", c, scale / sqrt(variance + number(variance, epsilon))), factor));
  const std::string shift = builder.fresh_name(node.outputs[0]);
  Declaration second(builder);
  const Expr bias = cast(type, second.read(node.input(2))(c[0]));
  const Expr mean = cast(type, second.read(node.input(3))(c[0]));
  const Tensor scaled = second.read(builder.value(factor));
  TW_RETURN_IF_ERROR(second.add(compute("out", c, bias - mean * scaled(c[0])), shift));
  Declaration third(builder);
  const std::vector<Axis> axes = axes_of(value.type.shape);
  const Expr channel = axes.size() < 2 ? Expr(0) : Expr(axes[1]);
  const Expr x = wide(third.read(value).read_at(at(axes)));
  const Tensor by = third.read(builder.value(factor)), plus = third.read(builder.value(shift));
  return third.add(compute("out", axes, cast(value.type.dtype, x * by(channel) + plus(channel))),
                   node.outputs[0]);
}

// ---- of images ------------------------------------------------------------------------------

Status convert_instance_normalization(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_image(node));
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_channels(node, {1, 2}, value.type.shape[1]));
  TW_TRY(const double epsilon, node.number("epsilon", 1e-5));
  const Rows rows(value.type.shape, dimensions_from(2, value.type.shape.size()));
  Declaration declaration(builder);
  const Expr normal = normalized(rows, declaration.read(value), epsilon);
  const Expr scale = wide(declaration.read(node.input(1))(rows.all[1]));
  const Expr shift = wide(declaration.read(node.input(2))(rows.all[1]));
  return declaration.add(compute("out", rows.all, cast(value.type.dtype, normal * scale + shift)),
                         node.outputs[0]);
}

Status convert_group_normalization(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_image(node));
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  const Value& value = node.input(0);
  TW_TRY(const int64_t groups, node.integer("num_groups", 0));
  TW_TRY(const double epsilon, node.number("epsilon", 1e-5));
  const int64_t channels = value.type.shape[1];
  if (groups < 1 || channels % groups != 0)
    return node.invalid(fmt::format("{} groups of {} channels", groups, channels));
  const bool is_by_group = node.opset < 21;
  TW_RETURN_IF_ERROR(check_channels(node, {1, 2}, is_by_group ? groups : channels));
  Shape shape = value.type.shape;
  shape[1] = groups;
  shape.insert(shape.begin() + 2, channels / groups);
  TW_TRY(const Value grouped, reshaped(builder, value, shape));
  const Rows rows(shape, dimensions_from(2, shape.size()));
  const Expr channel = is_by_group
                           ? Expr(rows.all[1])
                           : Expr(rows.all[1]) * Expr(channels / groups) + Expr(rows.all[2]);
  Declaration declaration(builder);
  const Expr normal = normalized(rows, declaration.read(grouped), epsilon);
  const Expr scale = wide(declaration.read(node.input(1))(channel));
  const Expr shift = wide(declaration.read(node.input(2))(channel));
  const std::string result = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(declaration.add(
      compute("out", rows.all, cast(value.type.dtype, normal * scale + shift)), result));
  return add_reshape(builder, builder.value(result), value.type.shape, node.outputs[0]);
}

Status convert_mean_variance_normalization(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const std::vector<int64_t> given, node.integers("axes", {0, 2, 3}));
  TW_TRY(const std::vector<size_t> axes, axes_of_list(node, given, value.rank()));
  const Rows rows(value.type.shape, axes);
  Declaration declaration(builder);
  const Tensor in = declaration.read(value), mean = mean_of(rows, in);
  const std::vector<Expr> row = at(rows.kept);
  const Expr deviation = deviation_of(rows, in, mean, 0).read_at(row);
  // Here epsilon is added to the deviation, not to the variance.
  const Expr normal =
      (wide(in.read_at(at(rows.all))) - mean.read_at(row)) / (deviation + number(deviation, 1e-9));
  return declaration.add(compute("out", rows.all, cast(value.type.dtype, normal)), node.outputs[0]);
}

Status convert_lrn(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_image(node));
  const Value& value = node.input(0);
  TW_TRY(const double alpha, node.number("alpha", 1e-4));
  TW_TRY(const double beta, node.number("beta", 0.75));
  TW_TRY(const double bias, node.number("bias", 1));
  TW_TRY(const int64_t size, node.integer("size", 0));
  if (size < 1 || size > 1 << 20) return node.invalid(fmt::format("size={}", size));
  const std::vector<Axis> axes = axes_of(value.type.shape);
  const Axis tap("t", size);
  const int64_t before = (size - 1) / 2, channels = value.type.shape[1];
  const Expr channel = Expr(axes[1]) + Expr(tap) - Expr(before);
  std::vector<Expr> indices = at(axes);
  indices[1] = channel;
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  const Expr x = wide(in.read_at(indices));
  const Expr is_inside = Expr(0) <= channel && channel < Expr(channels);
  const Tensor squares = compute("squares", axes, sum(tap, select(is_inside, x * x, number(x, 0))));
  const Expr mean = number(x, alpha / static_cast<double>(size)) * squares.read_at(at(axes));
  const Expr result = wide(in.read_at(at(axes))) * power(number(x, bias) + mean, -beta);
  return declaration.add(compute("out", axes, cast(value.type.dtype, result)), node.outputs[0]);
}

Status convert_lp_normalization(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const size_t axis, axis_attribute(node, -1, value.rank()));
  TW_TRY(const int64_t p, node.integer("p", 2));
  if (p != 1 && p != 2) return node.unsupported(fmt::format("p={}", p));
  const Rows rows(value.type.shape, {axis});
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  const Expr x = wide(in.read_at(rows.element()));
  const Tensor total = compute("total", rows.kept, sum(rows.over, p == 1 ? abs(x) : x * x));
  const Expr sum_of_row = total.read_at(at(rows.kept));
  const Expr norm = p == 1 ? sum_of_row : sqrt(sum_of_row);
  const Expr zero = number(x, 0);
  const Expr result = select(eq(norm, zero), zero, wide(in.read_at(at(rows.all))) / norm);
  return declaration.add(compute("out", rows.all, cast(value.type.dtype, result)), node.outputs[0]);
}

// ---- of the last dimensions -----------------------------------------------------------------

namespace {

/// Returns the extents from dimension `first` on, without those extents of 1 that come first.
Shape without_leading_ones(const Shape& shape, size_t first) {
  auto begin = shape.begin() + static_cast<int64_t>(first);
  while (begin != shape.end() && *begin == 1) ++begin;
  return {begin, shape.end()};
}

/// True if the named operator `layer_norm` declares the same function as the node. `layer_norm` has
/// the epsilon 1e-5 and f32 parameters for each column. The attribute is an f32, so its value as
/// f64 differs slightly from 1e-5.
bool is_layer_norm(const Node& node, size_t axis, double epsilon) {
  const Shape& shape = node.input(0).type.shape;
  const Shape normalized = without_leading_ones(shape, axis);
  const auto is_parameter = [&](size_t i) {
    return node.has_input(i) && node.input(i).type.dtype == Float32 &&
           without_leading_ones(node.input(i).type.shape, 0) == normalized;
  };
  const auto is_wanted = [&](size_t i) {
    return i < node.outputs.size() && !node.outputs[i].empty();
  };
  return extent_of(normalized) > 0 && node.input(0).type.dtype != Float64 &&
         static_cast<float>(epsilon) == 1e-5f && is_parameter(1) && is_parameter(2) &&
         !is_wanted(1) && !is_wanted(2);
}

Status add_layer_norm(const Node& node, Builder& builder, int64_t rows, int64_t columns) {
  const Value& value = node.input(0);
  TW_TRY(const Value matrix, reshaped(builder, value, {rows, columns}));
  TW_TRY(const Value scale, reshaped(builder, node.input(1), {columns}));
  TW_TRY(const Value shift, reshaped(builder, node.input(2), {columns}));
  const std::string result = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(add_named(builder, "layer_norm", {{"rows", rows}, {"cols", columns}},
                               value.type.dtype, {matrix, scale, shift}, result));
  return add_reshape(builder, builder.value(result), value.type.shape, node.outputs[0]);
}

/// Applies the scale (input 1) and the shift (input 2) of the node, unless they are left out, to
/// `value`, which has the type in which x is summed.
Result<Expr> scaled(const Node& node, Declaration& declaration, const Rows& rows, Expr value) {
  for (const size_t i : {1, 2}) {
    if (!node.has_input(i)) continue;
    TW_TRY(const Shape shape, broadcast(node, {rows.shape, node.input(i).type.shape}));
    if (shape != rows.shape) return node.invalid("a parameter is larger than the tensor");
    const Expr parameter = cast(
        value.type(),
        broadcast_read(declaration.read(node.input(i)), node.input(i).type.shape, at(rows.all)));
    value = i == 1 ? value * parameter : value + parameter;
  }
  return value;
}

/// Returns the stage `name` of a statistic with one value for each row. Reduced dimensions have
/// extent 1.
Tensor with_dimensions(const std::string& name, const Rows& rows, const Expr& value) {
  return compute(name, rows.result(true), value);
}

}  // namespace

namespace {

/// Checks that the attribute stash_type, the type of inner sums, is f32. Fails with Unsupported
/// otherwise.
Status check_stash_type(const Node& node) {
  TW_TRY(const int64_t stash_type, node.integer("stash_type", 1));
  return stash_type == 1 ? Status() : node.unsupported(fmt::format("stash_type={}", stash_type));
}

}  // namespace

Status convert_layer_normalization(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const size_t axis, axis_attribute(node, -1, value.rank()));
  TW_TRY(const double epsilon, node.number("epsilon", 1e-5));
  TW_RETURN_IF_ERROR(check_stash_type(node));
  const Shape& shape = value.type.shape;
  const int64_t columns = extent_of(shape, axis, shape.size());
  if (is_layer_norm(node, axis, epsilon))
    return add_layer_norm(node, builder, extent_of(shape, 0, axis), columns);
  const Rows rows(shape, dimensions_from(axis, shape.size()));
  Declaration declaration(builder);
  const Tensor x = declaration.read(value), mean = mean_of(rows, x);
  const Tensor deviation = deviation_of(rows, x, mean, epsilon);
  const Expr row_mean = mean.read_at(at(rows.kept)),
             row_deviation = deviation.read_at(at(rows.kept));
  const Expr normal = (wide(x.read_at(at(rows.all))) - row_mean) / row_deviation;
  TW_TRY(const Expr result, scaled(node, declaration, rows, normal));
  return declaration.add(
      {compute("out", rows.all, cast(value.type.dtype, result)),
       with_dimensions("mean_out", rows, cast(Float32, row_mean)),
       with_dimensions("inverse", rows, cast(Float32, number(row_mean, 1) / row_deviation))},
      node.outputs);
}

Status convert_rms_normalization(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const size_t axis, axis_attribute(node, -1, value.rank()));
  TW_TRY(const double epsilon, node.number("epsilon", 1e-5));
  TW_RETURN_IF_ERROR(check_stash_type(node));
  const DType type = node.input(1).type.dtype;
  TW_RETURN_IF_ERROR(check_float(node, type));
  const Rows rows(value.type.shape, dimensions_from(axis, value.type.shape.size()));
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  const Expr x = wide(in.read_at(rows.element()));
  const Tensor total = compute("total", rows.kept, sum(rows.over, x * x));
  const Expr mean = over_length(total.read_at(at(rows.kept)), rows);
  const Tensor root = compute("root", rows.kept, sqrt(mean + number(mean, epsilon)));
  const Expr normal = wide(in.read_at(at(rows.all))) / root.read_at(at(rows.kept));
  TW_TRY(const Expr result, scaled(node, declaration, rows, normal));
  return declaration.add(compute("out", rows.all, cast(type, result)), node.outputs[0]);
}

// ---- softmax --------------------------------------------------------------------------------

namespace {

/// softmax_of(), log_softmax_of() and hardmax_of() return an element of softmax, of its logarithm
/// and of hardmax over one dimension of x. They declare the stages that the element reads.
Expr softmax_of(const Rows& rows, const Tensor& x) {
  const std::vector<Expr> row = at(rows.kept);
  const Tensor peak =
      compute("peak", rows.kept, max_over(rows.over, wide(x.read_at(rows.element()))));
  const Tensor e = compute("e", rows.all, exp(wide(x.read_at(at(rows.all))) - peak.read_at(row)));
  const Tensor total = compute("total", rows.kept, sum(rows.over, e.read_at(rows.element())));
  return e.read_at(at(rows.all)) / total.read_at(row);
}

Expr log_softmax_of(const Rows& rows, const Tensor& x) {
  const std::vector<Expr> row = at(rows.kept);
  const Expr inside = wide(x.read_at(rows.element()));
  const Tensor peak = compute("peak", rows.kept, max_over(rows.over, inside));
  const Tensor total = compute("total", rows.kept, sum(rows.over, exp(inside - peak.read_at(row))));
  return wide(x.read_at(at(rows.all))) - peak.read_at(row) - log(total.read_at(row));
}

Expr hardmax_of(const Rows& rows, const Tensor& x) {
  const std::vector<Expr> row = at(rows.kept);
  const Expr inside = wide(x.read_at(rows.element()));
  const Tensor peak = compute("peak", rows.kept, max_over(rows.over, inside));
  const Axis& along = rows.over[0];
  const Tensor first = compute("first", rows.kept,
                               min_over(rows.over, select(eq(inside, peak.read_at(row)),
                                                          Expr(along), Expr(along.extent - 1))));
  const Expr here = rows.all[rows.reduced[0]];
  return select(eq(here, first.read_at(row)), number(inside, 1), number(inside, 0));
}

Status add_softmax(const Node& node, Builder& builder, const Value& value, size_t axis,
                   const std::string& output) {
  const DType type = value.type.dtype;
  const Shape& shape = value.type.shape;
  if (node.op_type == "Softmax" && axis + 1 == shape.size() && shape[axis] > 0) {
    const int64_t rows = extent_of(shape, 0, axis);
    TW_TRY(const Value matrix, reshaped(builder, value, {rows, shape[axis]}));
    const bool is_plain = shape.size() == 2;
    const std::string name = is_plain ? output : builder.fresh_name(output);
    TW_RETURN_IF_ERROR(add_named(builder, "softmax", {{"rows", rows}, {"cols", shape[axis]}}, type,
                                 {matrix}, name));
    return is_plain ? Status{} : add_reshape(builder, builder.value(name), shape, output);
  }
  const Rows rows(shape, {axis});
  Declaration declaration(builder);
  const Tensor x = declaration.read(value);
  const Expr result = node.op_type == "Softmax"      ? softmax_of(rows, x)
                      : node.op_type == "LogSoftmax" ? log_softmax_of(rows, x)
                                                     : hardmax_of(rows, x);
  return declaration.add(compute("out", rows.all, cast(type, result)), output);
}

}  // namespace

Status convert_softmax(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const size_t axis, axis_attribute(node, -1, value.rank()));
  return add_softmax(node, builder, value, axis, node.outputs[0]);
}

Status convert_flattened_softmax(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const size_t axis, axis_attribute(node, 1, value.rank()));
  const Shape& shape = value.type.shape;
  TW_TRY(
      const Value matrix,
      reshaped(builder, value, {extent_of(shape, 0, axis), extent_of(shape, axis, shape.size())}));
  const std::string name = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(add_softmax(node, builder, matrix, 1, name));
  return add_reshape(builder, builder.value(name), shape, node.outputs[0]);
}

}  // namespace tw::graph::onnx
