// SPDX-License-Identifier: Apache-2.0
// Operators whose value is known at import, whatever their inputs: constants, shapes, and tensors
// under another name. Also operators that are computed at import if all of their inputs are
// constants, because the expression language cannot use data as an index.

#include "graph/onnx/operators/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/integer.h"
#include "graph/onnx/graph_builder.h"

namespace tw::graph::onnx {

Result<dsl::Array> made_array(const Node& node, DType type, const std::vector<int64_t>& shape) {
  const std::string text = TensorType{type, shape}.to_string();
  if (std::ranges::any_of(shape, [](int64_t extent) { return extent < 0; }))
    return node.invalid(fmt::format("its result would be {}", text));
  const auto elements = checked_product(shape);
  if (!elements || *elements > most_made_bytes / size_bytes(type))
    return node.unsupported(
        fmt::format("its result {} would be made at import, where tensors of "
                    "at most {} MiB are",
                    text, most_made_bytes >> 20));
  return dsl::Array::make(type, shape);
}

namespace {

dsl::Array integer_array(const std::vector<int64_t>& values, std::vector<int64_t> shape) {
  dsl::Array array{Int64, std::move(shape), std::vector<std::byte>(8 * values.size())};
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

Status add_numbers(const std::string& output, std::span<const double> values,
                   std::vector<int64_t> shape, Builder& builder) {
  TW_TRY(dsl::Array array, dsl::Array::make(Float32, std::move(shape)));
  for (size_t i = 0; i < values.size(); ++i) array.set_float(static_cast<int64_t>(i), values[i]);
  return builder.add_constant(output, std::move(array));
}

/// Returns the numbers of a Range: start + i * delta, from start to limit (exclusive).
Result<dsl::Array> range_of_floats(const Node& node) {
  TW_TRY(const std::vector<double> start, node.constant_numbers(0));
  TW_TRY(const std::vector<double> limit, node.constant_numbers(1));
  TW_TRY(const std::vector<double> delta, node.constant_numbers(2));
  const double count = std::max(0.0, std::ceil((limit[0] - start[0]) / delta[0]));
  if (count > static_cast<double>(most_made_bytes))
    return node.unsupported(fmt::format("its result would have {} elements", count));
  TW_TRY(dsl::Array array,
         made_array(node, node.input(0).type.dtype, {static_cast<int64_t>(count)}));
  for (int64_t i = 0; i < array.size(); ++i)
    array.set_float(i, start[0] + static_cast<double>(i) * delta[0]);
  return array;
}

Result<dsl::Array> range_of_integers(const Node& node) {
  TW_TRY(const std::vector<int64_t> start, node.constant_integers(0));
  TW_TRY(const std::vector<int64_t> limit, node.constant_integers(1));
  TW_TRY(const std::vector<int64_t> delta, node.constant_integers(2));
  if (delta[0] == 0) return node.invalid("its delta is 0");
  int64_t span;
  if (__builtin_sub_overflow(limit[0], start[0], &span) || span == INT64_MIN)
    return node.unsupported("its result has more elements than can be counted");
  const int64_t count = std::max<int64_t>(0, ceil_div(span, delta[0]));
  TW_TRY(dsl::Array array, made_array(node, node.input(0).type.dtype, {count}));
  int64_t value = start[0];
  for (int64_t i = 0; i < count; ++i) {
    array.set_int(i, value);
    if (i + 1 < count) value += delta[0];
  }
  return array;
}

/// Returns the position counted from 0 and clamped to [0, n]. A negative `position` counts from the
/// end.
int64_t clamped_position(int64_t position, int64_t n) {
  return std::clamp<int64_t>(position < 0 ? position + n : position, 0, n);
}

}  // namespace

Status convert_constant(const Node& node, Builder& builder) {
  if (node.attributes.size() != 1)
    return node.invalid(
        fmt::format("it has {} attributes, expected its value", node.attributes.size()));
  const auto& [name, value] = *node.attributes.begin();
  const std::string& output = node.outputs[0];
  if (name == "value") {
    TW_TRY(const Constant* constant, node.tensor(name));
    return builder.add_constant(output, *constant->array);
  }
  if (name == "value_int" || name == "value_ints") {
    const bool is_list = name == "value_ints";
    TW_TRY(const std::vector<int64_t> list,
           is_list ? node.integers(name, {})
                   : node.integer(name, 0).map([](int64_t i) { return std::vector<int64_t>{i}; }));
    const std::vector<int64_t> shape(is_list ? 1 : 0, std::ssize(list));
    return builder.add_constant(output, integer_array(list, shape));
  }
  if (const auto* number = std::get_if<double>(&value); number && name == "value_float")
    return add_numbers(output, {number, 1}, {}, builder);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value);
      numbers && name == "value_floats")
    return add_numbers(output, *numbers, {std::ssize(*numbers)}, builder);
  return node.unsupported(fmt::format("its attribute '{}' is not implemented", name));
}

Status convert_constant_of_shape(const Node& node, Builder& builder) {
  TW_TRY(const std::vector<int64_t> shape, node.constant_integers(0));
  TW_TRY(const Constant* value, node.tensor("value"));
  if (value && value->array->size() != 1)
    return node.invalid(fmt::format("its value has {} elements", value->array->size()));
  if (std::ranges::any_of(shape, [](int64_t extent) { return extent < 0; }))
    return node.invalid(
        fmt::format("its result would be {}", TensorType{Float32, shape}.to_string()));
  TW_TRY(const dsl::Array zero, dsl::Array::make(Float32, {1}));
  return builder.add_filled(node.outputs[0], shape, value ? *value->array : zero);
}

Status convert_dropout(const Node& node, Builder& builder) {
  if (node.has_input(2)) {  // training_mode, from opset 12 on
    TW_TRY(const std::vector<int64_t> training, node.constant_integers(2));
    if (training.size() != 1) return node.invalid("training_mode is no single bool");
    if (training[0] != 0) return node.unsupported("training is not implemented");
  }
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(builder.alias(node.outputs[0], value.name));
  if (node.outputs.size() < 2 || node.outputs[1].empty() || node.opset < 10) return {};
  TW_TRY(dsl::Array mask, made_array(node, Bool, value.type.shape));
  std::ranges::fill(mask.data, std::byte{1});
  return builder.add_constant(node.outputs[1], std::move(mask));
}

Status convert_identity(const Node& node, Builder& builder) {
  return builder.alias(node.outputs[0], node.input(0).name);
}

Status convert_range(const Node& node, Builder& builder) {
  const DType type = node.input(0).type.dtype;
  for (size_t i = 0; i < 3; ++i)
    if (node.input(i).type.dtype != type || checked_product(node.input(i).type.shape) != 1)
      return node.invalid("start, limit and delta are not single numbers of one type");
  TW_TRY(dsl::Array array, is_float(type) ? range_of_floats(node) : range_of_integers(node));
  return builder.add_constant(node.outputs[0], std::move(array));
}

Status convert_shape(const Node& node, Builder& builder) {
  const std::vector<int64_t>& shape = node.input(0).type.shape;
  const int64_t rank = std::ssize(shape);
  TW_TRY(int64_t start, node.integer("start", 0));
  TW_TRY(int64_t end, node.integer("end", rank));
  start = clamped_position(start, rank);
  end = std::max(start, clamped_position(end, rank));
  const std::vector<int64_t> part(shape.begin() + start, shape.begin() + end);
  return builder.add_constant(node.outputs[0], integer_array(part, {end - start}));
}

Status convert_size(const Node& node, Builder& builder) {
  const auto elements = checked_product(node.input(0).type.shape);
  if (!elements) return node.unsupported("its input has more elements than can be counted");
  return builder.add_constant(node.outputs[0], integer_array({*elements}, {}));
}

namespace {

/// Computes Gather: the slices of the table along dimension `axis` that the indices name.
Status compute_gather(const Node& node, Builder& builder) {
  const dsl::Array& table = *node.input(0).constant->array;
  const int64_t rank = node.input(0).rank();
  TW_TRY(int64_t axis, node.integer("axis", 0));
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return node.invalid("its axis is no dimension of its table");
  TW_TRY(const std::vector<int64_t> indices, node.constant_integers(1));
  const auto dimension = table.shape.begin() + axis;
  std::vector<int64_t> shape(table.shape.begin(), dimension);
  const std::vector<int64_t>& index_shape = node.input(1).type.shape;
  shape.insert(shape.end(), index_shape.begin(), index_shape.end());
  shape.insert(shape.end(), dimension + 1, table.shape.end());
  TW_TRY(dsl::Array result, made_array(node, table.type, shape));
  const int64_t outer = checked_product({table.shape.begin(), dimension}).value_or(0);
  const int64_t inner = checked_product({dimension + 1, table.shape.end()}).value_or(0);
  const int64_t row = inner * size_bytes(table.type), extent = *dimension;
  std::byte* to = result.data.data();
  for (int64_t i = 0; i < outer && !result.data.empty(); ++i)
    for (const int64_t index : indices) {
      if (index < -extent || index >= extent)
        return node.invalid(fmt::format("the index {} of {} elements", index, extent));
      const int64_t from = i * extent + floor_mod(index, extent);
      std::memcpy(to, table.data.data() + from * row, static_cast<size_t>(row));
      to += row;
    }
  return builder.add_constant(node.outputs[0], std::move(result));
}

/// Computes NonZero: a column of indices for each element that is not 0, in row-major order.
Status compute_non_zero(const Node& node, Builder& builder) {
  const dsl::Array& array = *node.input(0).constant->array;
  const int64_t rank = node.input(0).rank();
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < array.size(); ++i)
    if (array.get_float(i) != 0) positions.push_back(i);
  const int64_t count = std::ssize(positions);
  TW_TRY(dsl::Array result, made_array(node, Int64, {rank, count}));
  int64_t stride = 1;
  for (int64_t d = rank; d-- > 0 && count > 0;) {
    const int64_t extent = array.shape[static_cast<size_t>(d)];
    for (int64_t i = 0; i < count; ++i)
      result.set_int(d * count + i, positions[static_cast<size_t>(i)] / stride % extent);
    stride *= extent;
  }
  return builder.add_constant(node.outputs[0], std::move(result));
}

}  // namespace

const std::vector<Conversion>& constant_conversions() {
  static const std::vector<Conversion> rows = {
      {"Gather", 1, 0, compute_gather, 2},
      {"GatherElements", 11, 0, compute_gather_elements, 2},
      {"GatherND", 11, 0, compute_gather_nd, 2},
      {"NonZero", 9, 0, compute_non_zero},
      {"Scatter", 9, 10, compute_scatter_elements, 3},
      {"ScatterElements", 11, 0, compute_scatter_elements, 3},
      {"ScatterND", 11, 0, compute_scatter_nd, 3},
  };
  return rows;
}

}  // namespace tw::graph::onnx
