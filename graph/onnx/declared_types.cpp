// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/declared_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "base/integer.h"
#include "base/text.h"
#include "graph/onnx/model_checks.h"
#include "graph/onnx/names.h"
#include "graph/onnx/node.h"

namespace tw::graph::onnx {
namespace {

using ::onnx::TensorProto;
using ::onnx::TensorShapeProto;
using ::onnx::ValueInfoProto;
using Dimension = TensorShapeProto::Dimension;

constexpr int64_t most_input_elements = int64_t{1} << 38;
constexpr int most_input_dimensions = 26;  // the limit of the DSL

std::string printable_list(const std::set<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(printable(name));
  return join(quoted, ", ");
}

const TensorShapeProto& shape_of(const ValueInfoProto& tensor) {
  return tensor.type().tensor_type().shape();
}

/// True if the model declares the extent. Exporters write -1 for an extent that they do not know.
bool is_known(const Dimension& dimension) {
  return dimension.has_dim_value() && dimension.dim_value() != -1;
}

/// Returns the names by which a caller can give a value to an unknown dimension, the preferred name
/// first: "x.0", then the dimension's own name if it has one.
std::vector<std::string> symbols_of(const ValueInfoProto& input, int index) {
  std::vector<std::string> symbols = {fmt::format("{}.{}", input.name(), index)};
  const Dimension& dimension = shape_of(input).dim(index);
  if (!dimension.dim_param().empty()) symbols.push_back(dimension.dim_param());
  return symbols;
}

/// Returns the value that the caller gives to an unknown dimension; nullopt if there is none.
std::optional<int64_t> value_of(const ValueInfoProto& input, int index,
                                const DimensionValues& values) {
  for (const std::string& symbol : symbols_of(input, index))
    if (const auto found = values.find(symbol); found != values.end()) return found->second;
  return std::nullopt;
}

Status check_value(const std::string& name, int64_t extent, const std::set<std::string>& known,
                   const std::set<std::string>& shown) {
  if (!known.contains(name))
    return fail(
        ErrorCode::Usage,
        fmt::format("[onnx] no input has a dimension '{}'; there {}", printable(name),
                    shown.empty() ? "are none with a name" : "are " + printable_list(shown)));
  if (extent < 0)
    return fail(ErrorCode::Usage, fmt::format("[onnx] the dimension '{}' is {}, expected 0 or more",
                                              printable(name), extent));
  return {};
}

/// Returns the declared type of an output with this type of elements, such as "f32[batch, 10]".
std::string text_of(const ValueInfoProto& output, DType dtype) {
  std::vector<std::string> extents;
  for (const Dimension& dimension : shape_of(output).dim())
    extents.push_back(is_known(dimension)             ? std::to_string(dimension.dim_value())
                      : dimension.dim_param().empty() ? "?"
                                                      : printable(dimension.dim_param()));
  return fmt::format("{}[{}]", to_string(dtype), fmt::join(extents, ", "));
}

/// True if a tensor with these extents agrees with the declared shape. An unknown dimension agrees
/// with any extent.
bool admits(const TensorShapeProto& shape, const std::vector<int64_t>& extents) {
  if (shape.dim_size() != std::ssize(extents)) return false;
  for (int i = 0; i < shape.dim_size(); ++i)
    if (is_known(shape.dim(i)) && shape.dim(i).dim_value() != extents[static_cast<size_t>(i)])
      return false;
  return true;
}

/// Returns the least and the largest integer of a type between which all integers are exact in f64.
/// The range is so small that no other integer is rounded to a number in it.
std::pair<double, double> whole_range(DType type) {
  if (type == Int64) return {-0x1p53 + 1, 0x1p53 - 1};
  const IntegerLimits limits = integer_limits(type);
  return {static_cast<double>(limits.least), static_cast<double>(limits.largest)};
}

}  // namespace

Status check_dimensions(const Inputs& inputs, const DimensionValues& values) {
  std::set<std::string> known, shown, missing;
  for (const ValueInfoProto* input : inputs)
    for (int i = 0; i < shape_of(*input).dim_size(); ++i) {
      if (is_known(shape_of(*input).dim(i))) continue;
      const std::vector<std::string> symbols = symbols_of(*input, i);
      known.insert(symbols.begin(), symbols.end());
      shown.insert(symbols.back());
      if (!value_of(*input, i, values)) missing.insert(symbols.back());
    }
  if (!missing.empty())
    return fail(ErrorCode::Usage,
                fmt::format("[onnx] these dimensions of inputs have no value: {}; give one to "
                            "each, as in --dim {}=1",
                            printable_list(missing), printable(*missing.begin())));
  for (const auto& [name, extent] : values)
    TW_RETURN_IF_ERROR(check_value(name, extent, known, shown));
  return {};
}

Result<TensorType> type_of_input(const ValueInfoProto& input, const DimensionValues& values) {
  const auto wrong = [&](ErrorCode code, const std::string& why) {
    return fail(code, fmt::format("[onnx] input '{}': {}", printable(input.name()), why));
  };
  if (!input.type().has_tensor_type())
    return wrong(ErrorCode::Unsupported, "its type is not implemented, expected a tensor");
  if (!input.type().tensor_type().has_shape())
    return wrong(ErrorCode::Unsupported, "its number of dimensions is not known");
  TensorType type;
  const auto dtype = element_type(input.type().tensor_type().elem_type());
  if (!dtype) return wrong(dtype.error().code, without_prefix(dtype.error().message));
  type.dtype = *dtype;
  const TensorShapeProto& shape = shape_of(input);
  for (int i = 0; i < shape.dim_size(); ++i) {
    const Dimension& dimension = shape.dim(i);
    type.shape.push_back(is_known(dimension) ? dimension.dim_value()
                                             : value_of(input, i, values).value());
    if (type.shape.back() < 0)
      return wrong(ErrorCode::Invalid, fmt::format("dimension {} is {}", i, type.shape.back()));
  }
  const auto elements = checked_product(type.shape);
  if (!elements || *elements > most_input_elements || shape.dim_size() > most_input_dimensions)
    return wrong(ErrorCode::Unsupported, "it is too large");
  return type;
}

Status check_pinned(const Inputs& inputs,
                    const std::map<std::string, std::vector<double>>& values) {
  std::set<std::string> names;
  for (const ValueInfoProto* input : inputs) names.insert(input->name());
  for (const auto& [name, elements] : values)
    if (!names.contains(name))
      return fail(ErrorCode::Usage,
                  fmt::format("[onnx] the model has no input '{}' that could be a constant; there "
                              "{}",
                              printable(name),
                              names.empty() ? "are none" : "are " + printable_list(names)));
  return {};
}

Result<dsl::Array> pinned_array(const std::string& input, const TensorType& type,
                                const std::vector<double>& values) {
  const auto wrong = [&](const std::string& why) {
    return fail(ErrorCode::Usage,
                fmt::format("[onnx] the constant '{}': {}", printable(input), why));
  };
  if (checked_product(type.shape) != std::ssize(values))
    return wrong(fmt::format("{} values, but the input is {}", values.size(), type.to_string()));
  TW_TRY(dsl::Array array, dsl::Array::make(type.dtype, type.shape));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    if (is_float(type.dtype)) {
      array.set_float(position, values[i]);
      continue;
    }
    const auto [least, largest] = whole_range(type.dtype);
    if (!(values[i] >= least && values[i] <= largest) || values[i] != std::floor(values[i]))
      return wrong(fmt::format("{} is no {} from {:.0f} to {:.0f}", values[i],
                               to_string(type.dtype), least, largest));
    array.set_int(position, static_cast<int64_t>(values[i]));
  }
  return array;
}

Result<std::optional<std::string>> check_declared(const ValueInfoProto& output,
                                                  const TensorType& computed) {
  const auto contradiction = [&](const std::string& declared) {
    return fmt::format("the output '{}' is declared as {}, but its nodes give {}",
                       printable(output.name()), declared, computed.to_string());
  };
  if (!output.type().has_tensor_type()) return std::nullopt;
  const auto& declared = output.type().tensor_type();
  if (declared.elem_type() != TensorProto::UNDEFINED) {
    const auto known = element_type(declared.elem_type());
    if (!known)
      return invalid_model(contradiction(fmt::format("elements of type {}", declared.elem_type())));
    if (*known != computed.dtype)
      return invalid_model(contradiction(declared.has_shape() ? text_of(output, *known)
                                                              : std::string(to_string(*known))));
  }
  if (!declared.has_shape() || admits(declared.shape(), computed.shape)) return std::nullopt;
  return contradiction(text_of(output, computed.dtype));
}

}  // namespace tw::graph::onnx
