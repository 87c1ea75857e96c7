// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "graph/onnx/import.h"

namespace tw::graph::onnx {
namespace {

/// The names of the element types, by their values in TensorProto.DataType.
constexpr std::string_view element_types[] = {
    "undefined",      "float",      "uint8",          "int8",       "uint16",     "int16",
    "int32",          "int64",      "string",         "bool",       "float16",    "double",
    "uint32",         "uint64",     "complex64",      "complex128", "bfloat16",   "float8e4m3fn",
    "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",       "float4e2m1",
    "float8e8m0",     "uint2",      "int2",           "float6e2m3", "float6e3m2",
};

/// Returns the attribute as T, or `otherwise` if it is absent. Fails with Invalid if it has another
/// type. `kind` describes T in the message.
template <typename T>
Result<T> attribute_or(const Node& node, std::string_view attribute, std::string_view kind,
                       const T& otherwise) {
  const auto found = node.attributes.find(std::string(attribute));
  if (found == node.attributes.end()) return otherwise;
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  return node.invalid(fmt::format("its attribute '{}' is no {}", attribute, kind));
}

Result<const dsl::Array*> constant_input(const Node& node, size_t index) {
  if (!node.has_input(index)) return node.invalid(fmt::format("input {} is left out", index));
  const Value& value = node.input(index);
  if (value.constant) return value.constant->array.get();
  return node.unsupported(fmt::format("its input '{}' is not known at import", value.name));
}

}  // namespace

Result<int64_t> Node::integer(std::string_view attribute, int64_t otherwise) const {
  return attribute_or(*this, attribute, "integer", otherwise);
}

Result<double> Node::number(std::string_view attribute, double otherwise) const {
  return attribute_or(*this, attribute, "number", otherwise);
}

Result<std::string> Node::text(std::string_view attribute, const std::string& otherwise) const {
  return attribute_or(*this, attribute, "text", otherwise);
}

Result<std::vector<int64_t>> Node::integers(std::string_view attribute,
                                            const std::vector<int64_t>& otherwise) const {
  return attribute_or(*this, attribute, "list of integers", otherwise);
}

Result<const Constant*> Node::tensor(std::string_view attribute) const {
  const auto found = attributes.find(std::string(attribute));
  if (found == attributes.end()) return nullptr;
  if (const Constant* value = std::get_if<Constant>(&found->second)) return value;
  return invalid(fmt::format("its attribute '{}' is no tensor", attribute));
}

Result<std::vector<int64_t>> Node::constant_integers(size_t index) const {
  TW_TRY(const dsl::Array* array, constant_input(*this, index));
  if (is_float(array->type))
    return invalid(fmt::format("its input '{}' is {}, expected integers", input(index).name,
                               input(index).type.to_string()));
  std::vector<int64_t> values(static_cast<size_t>(array->size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = array->get_int(static_cast<int64_t>(i));
  return values;
}

Result<std::vector<double>> Node::constant_numbers(size_t index) const {
  TW_TRY(const dsl::Array* array, constant_input(*this, index));
  std::vector<double> values(static_cast<size_t>(array->size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = array->get_float(static_cast<int64_t>(i));
  return values;
}

tl::unexpected<Error> Node::fail(ErrorCode code, const std::string& why) const {
  return tw::fail(code, fmt::format("[onnx] node '{}' ({}): {}", name, op_type, why));
}

tl::unexpected<Error> Node::invalid(const std::string& why) const {
  return fail(ErrorCode::Invalid, why);
}

tl::unexpected<Error> Node::unsupported(const std::string& why) const {
  return fail(ErrorCode::Unsupported, why);
}

const Conversion* find_conversion(const std::vector<Conversion>& rows, std::string_view op_type,
                                  int64_t opset) {
  const auto found = std::ranges::find_if(rows, [&](const Conversion& row) {
    return row.op_type == op_type && row.since <= opset && (row.until == 0 || opset <= row.until);
  });
  return found == rows.end() ? nullptr : &*found;
}

Result<DType> element_type(int64_t number) {
  if (number <= 0 || number >= std::ssize(element_types))
    return fail(ErrorCode::Invalid, fmt::format("[onnx] {} is no element type", number));
  const std::string_view name = element_types[number];
  if (const auto type = find_dtype(&DTypeInfo::in_onnx, name)) return *type;
  return fail(ErrorCode::Unsupported,
              fmt::format("[onnx] the element type {} is not implemented", name));
}

}  // namespace tw::graph::onnx

namespace tw::graph {

std::vector<std::string> onnx_operators() {
  std::set<std::string> names = {"If", "Loop", "Scan"};
  for (const onnx::Conversion& row : onnx::conversions()) names.emplace(row.op_type);
  for (const onnx::Conversion& row : onnx::constant_conversions()) names.emplace(row.op_type);
  for (const onnx::Conversion& row : onnx::contributed_conversions())
    names.insert(fmt::format("{}.{}", onnx::contributed_domain, row.op_type));
  return {names.begin(), names.end()};
}

}  // namespace tw::graph
