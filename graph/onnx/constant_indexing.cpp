// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters of constants, computed at import. They copy single elements, so that
// gathering n elements takes a time proportional to n, whatever the size of the tensor that they
// are gathered from.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/integer.h"
#include "graph/onnx/operators/constants.h"

namespace tw::graph::onnx {
namespace {

/// Calls f with the position of each element of the shape, in row-major order, and its indices.
template <typename F>
Status for_each_element(const std::vector<int64_t>& shape, F f) {
  const int64_t elements = checked_product(shape).value_or(0);
  std::vector<int64_t> indices(shape.size());
  for (int64_t position = 0; position < elements; ++position) {
    TW_RETURN_IF_ERROR(f(position, indices));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++indices[d] < shape[d]) break;
      indices[d] = 0;
    }
  }
  return {};
}

/// Converts an index, which counts from the end if it is negative, to an index counted from 0.
/// Fails with Invalid if there is no such element.
Result<int64_t> element_index(const Node& node, int64_t index, int64_t extent) {
  if (index < -extent || index >= extent)
    return node.invalid(fmt::format("the index {} of {} elements", index, extent));
  return index < 0 ? index + extent : index;
}

/// Returns input `input` of a node, a constant that holds indices. Fails with Invalid unless its
/// type is i32 or i64.
Result<const dsl::Array*> index_array(const Node& node, size_t input) {
  const DType type = node.input(input).type.dtype;
  if (type != Int32 && type != Int64)
    return node.invalid(fmt::format("input {} is {}: expected indices", input, to_string(type)));
  return node.input(input).constant->array.get();
}

/// Copies an element of one array to another of the same type.
void copy_element(const dsl::Array& from, int64_t at, dsl::Array& to, int64_t position) {
  const int64_t bytes = size_bytes(from.type);
  std::memcpy(&to.data[static_cast<size_t>(position * bytes)],
              &from.data[static_cast<size_t>(at * bytes)], static_cast<size_t>(bytes));
}

/// Positions for GatherElements and ScatterElements. An element of the indices refers to the
/// element of `data` at its own coordinates, except that the coordinate along `axis` is the index
/// itself: indices[i, j] refers to data[indices[i, j], j] if the axis is 0.
struct Elements {
  const dsl::Array* indices;
  size_t axis;

  Result<int64_t> position(const Node& node, const dsl::Array& data, int64_t element,
                           std::vector<int64_t> at) const {
    TW_TRY(at[axis], element_index(node, indices->get_int(element), data.shape[axis]));
    return data.offset(at);
  }
};

Result<Elements> elements_of(const Node& node) {
  const std::vector<int64_t>& shape = node.input(0).type.shape;
  TW_TRY(const dsl::Array* indices, index_array(node, 1));
  TW_TRY(const int64_t given, node.integer("axis", 0));
  const int64_t rank = std::ssize(shape), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank || std::ssize(indices->shape) != rank)
    return node.invalid("its axis or its indices do not fit its data");
  for (size_t d = 0; d < shape.size(); ++d)
    if (static_cast<int64_t>(d) != axis && indices->shape[d] > shape[d])
      return node.invalid("too many indices");
  return Elements{indices, static_cast<size_t>(axis)};
}

}  // namespace

Status compute_gather_elements(const Node& node, Builder& builder) {
  const dsl::Array& data = *node.input(0).constant->array;
  TW_TRY(const Elements elements, elements_of(node));
  TW_TRY(dsl::Array result, made_array(node, data.type, elements.indices->shape));
  TW_RETURN_IF_ERROR(
      for_each_element(result.shape, [&](int64_t i, const std::vector<int64_t>& at) -> Status {
        TW_TRY(const int64_t from, elements.position(node, data, i, at));
        copy_element(data, from, result, i);
        return {};
      }));
  return builder.add_constant(node.outputs[0], std::move(result));
}

namespace {

/// The slices of the data that the indices of GatherND and ScatterND name. The last dimension of
/// the indices names one slice: it has an index into each dimension of the data after those of the
/// batch, except for the dimensions of the slice itself.
struct Slices {
  const dsl::Array* indices;
  size_t batch;  ///< number of leading dimensions that data and indices share
  size_t named;  ///< number of dimensions of the data, after those of the batch, that are indexed
  std::vector<int64_t> index_shape;  ///< shape of the indices without their last dimension
  std::vector<int64_t> slice;        ///< shape of a slice
  int64_t size;                      ///< number of elements of a slice

  /// Returns the position in the data of the first element of a slice. `index` is the row-major
  /// position of its index in `index_shape`, and `at` are the coordinates there.
  Result<int64_t> position(const Node& node, const dsl::Array& data, int64_t index,
                           const std::vector<int64_t>& at) const {
    std::vector<int64_t> where(at.begin(), at.begin() + static_cast<int64_t>(batch));
    for (size_t j = 0; j < named; ++j) {
      const int64_t given =
          indices->get_int(index * static_cast<int64_t>(named) + static_cast<int64_t>(j));
      TW_TRY(const int64_t found, element_index(node, given, data.shape[batch + j]));
      where.push_back(found);
    }
    where.resize(data.shape.size());
    return data.offset(where);
  }
};

Result<Slices> slices_of(const Node& node, int64_t batch) {
  const std::vector<int64_t>& shape = node.input(0).type.shape;
  TW_TRY(const dsl::Array* indices, index_array(node, 1));
  const int64_t rank = std::ssize(shape);
  if (batch < 0 || batch >= std::ssize(indices->shape) || batch > rank ||
      indices->shape.back() > rank - batch ||
      !std::equal(shape.begin(), shape.begin() + batch, indices->shape.begin()))
    return node.invalid("its indices do not fit its data");
  const int64_t named = indices->shape.back();
  Slices slices = {indices, static_cast<size_t>(batch), static_cast<size_t>(named), {}, {}, 1};
  slices.index_shape.assign(indices->shape.begin(), indices->shape.end() - 1);
  slices.slice.assign(shape.begin() + batch + named, shape.end());
  slices.size = checked_product(slices.slice).value_or(0);
  return slices;
}

std::vector<int64_t> shape_of(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

Status compute_gather_nd(const Node& node, Builder& builder) {
  const dsl::Array& data = *node.input(0).constant->array;
  TW_TRY(const int64_t batch, node.integer("batch_dims", 0));
  TW_TRY(const Slices slices, slices_of(node, batch));
  TW_TRY(dsl::Array result,
         made_array(node, data.type, shape_of(slices.index_shape, slices.slice)));
  if (result.data.empty()) return builder.add_constant(node.outputs[0], std::move(result));
  TW_RETURN_IF_ERROR(for_each_element(
      slices.index_shape, [&](int64_t i, const std::vector<int64_t>& at) -> Status {
        TW_TRY(const int64_t from, slices.position(node, data, i, at));
        for (int64_t k = 0; k < slices.size; ++k)
          copy_element(data, from + k, result, i * slices.size + k);
        return {};
      }));
  return builder.add_constant(node.outputs[0], std::move(result));
}

namespace {

enum class Updating { None, Add, Mul, Max, Min };

Result<Updating> updating_of(const Node& node) {
  TW_TRY(const std::string name, node.text("reduction", "none"));
  constexpr std::string_view names[] = {"none", "add", "mul", "max", "min"};
  const auto* found = std::ranges::find(names, name);
  if (found == std::end(names)) return node.unsupported(fmt::format("reduction='{}'", name));
  return static_cast<Updating>(found - names);
}

template <typename T>
T updated(Updating how, T a, T b) {
  switch (how) {
    case Updating::Add:
      return a + b;
    case Updating::Mul:
      return a * b;
    case Updating::Max:
      return std::max(a, b);
    case Updating::Min:
      return std::min(a, b);
    case Updating::None:
      break;
  }
  return b;
}

/// Updates an element. Integers wrap, as in kernels.
void update_element(Updating how, const dsl::Array& updates, int64_t at, dsl::Array& result,
                    int64_t position) {
  if (how == Updating::None) return copy_element(updates, at, result, position);
  if (is_float(result.type)) {
    result.set_float(position, updated(how, result.get_float(position), updates.get_float(at)));
    return;
  }
  const int64_t a = result.get_int(position), b = updates.get_int(at);
  const bool wraps = how == Updating::Add || how == Updating::Mul;
  result.set_int(position, wraps ? static_cast<int64_t>(updated(how, static_cast<uint64_t>(a),
                                                                static_cast<uint64_t>(b)))
                                 : updated(how, a, b));
}

/// Returns a copy of the data of a node (input 0). Fails with Invalid unless its updates (input 2)
/// have the type of the data and the shape `updates`.
Result<dsl::Array> scattered_onto(const Node& node, const std::vector<int64_t>& updates) {
  const Value& data = node.input(0);
  if (node.input(2).type.dtype != data.type.dtype)
    return node.invalid("data and updates differ in type");
  if (node.input(2).type.shape != updates)
    return node.invalid("its updates do not fit its indices");
  return *data.constant->array;
}

}  // namespace

Status compute_scatter_elements(const Node& node, Builder& builder) {
  TW_TRY(const Elements elements, elements_of(node));
  TW_TRY(const Updating how, updating_of(node));
  TW_TRY(dsl::Array result, scattered_onto(node, elements.indices->shape));
  const dsl::Array& updates = *node.input(2).constant->array;
  TW_RETURN_IF_ERROR(
      for_each_element(updates.shape, [&](int64_t i, const std::vector<int64_t>& at) -> Status {
        TW_TRY(const int64_t to, elements.position(node, result, i, at));
        update_element(how, updates, i, result, to);
        return {};
      }));
  return builder.add_constant(node.outputs[0], std::move(result));
}

Status compute_scatter_nd(const Node& node, Builder& builder) {
  TW_TRY(const Slices slices, slices_of(node, 0));
  TW_TRY(const Updating how, updating_of(node));
  TW_TRY(dsl::Array result, scattered_onto(node, shape_of(slices.index_shape, slices.slice)));
  const dsl::Array& updates = *node.input(2).constant->array;
  if (updates.data.empty()) return builder.add_constant(node.outputs[0], std::move(result));
  TW_RETURN_IF_ERROR(for_each_element(
      slices.index_shape, [&](int64_t i, const std::vector<int64_t>& at) -> Status {
        TW_TRY(const int64_t to, slices.position(node, result, i, at));
        for (int64_t k = 0; k < slices.size; ++k)
          update_element(how, updates, i * slices.size + k, result, to + k);
        return {};
      }));
  return builder.add_constant(node.outputs[0], std::move(result));
}

}  // namespace tw::graph::onnx
