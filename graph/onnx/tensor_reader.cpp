// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/tensor_reader.h"

#include <fmt/format.h>
#include <onnx-ml.pb.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

#include "base/integer.h"
#include "base/text.h"
#include "graph/onnx/names.h"
#include "graph/onnx/node.h"
#include "graph/onnx/wire.h"

namespace tw::graph::onnx {
namespace {

using ::onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "raw data are little-endian");

constexpr FieldSet fields_of_tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16});
constexpr int most_dimensions = 26;  // the limit of the DSL

struct Tensor {
  const TensorProto& proto;
  DType type = Float32;  ///< element type of the array
  std::vector<int64_t> shape = {};
  int64_t elements = 0;

  tl::unexpected<Error> fail(ErrorCode code, const std::string& why) const {
    return tw::fail(code, fmt::format("[onnx] tensor '{}': {}", printable(proto.name()), why));
  }
  tl::unexpected<Error> invalid(const std::string& why) const {
    return fail(ErrorCode::Invalid, why);
  }
};

Result<Tensor> describe(const TensorProto& proto) {
  Tensor tensor{proto};
  TW_RETURN_IF_ERROR(check_unread(proto.unknown_fields(), fields_of_tensor,
                                  fmt::format("tensor '{}'", printable(proto.name()))));
  const auto type = element_type(proto.data_type());
  if (!type) return tensor.fail(type.error().code, without_prefix(type.error().message));
  tensor.type = *type;
  if (proto.has_segment())
    return tensor.fail(ErrorCode::Unsupported, "tensors in segments are not implemented");
  if (proto.dims_size() > most_dimensions)
    return tensor.fail(ErrorCode::Unsupported, fmt::format("{} dimensions, expected at most {}",
                                                           proto.dims_size(), most_dimensions));
  for (const int64_t extent : proto.dims())
    if (extent < 0) return tensor.invalid(fmt::format("a dimension is {}", extent));
  tensor.shape = {proto.dims().begin(), proto.dims().end()};
  const auto elements = checked_product(tensor.shape);
  if (!elements || !checked_mul(*elements, size_bytes(tensor.type)))
    return tensor.invalid("it has more elements than can be counted");
  tensor.elements = *elements;
  return tensor;
}

/// A field of a TensorProto that may hold the elements. `size` is the number of entries in the
/// field: bytes of raw_data, and 1 for external_data. filled_fields() returns the fields that have
/// entries.
struct Field {
  std::string_view name;
  int64_t size;
};
std::vector<Field> filled_fields(const TensorProto& proto) {
  const Field all[] = {{"float_data", proto.float_data_size()},
                       {"int32_data", proto.int32_data_size()},
                       {"int64_data", proto.int64_data_size()},
                       {"double_data", proto.double_data_size()},
                       {"uint64_data", proto.uint64_data_size()},
                       {"string_data", proto.string_data_size()},
                       {"raw_data", std::ssize(proto.raw_data())},
                       {"external_data", proto.data_location() == TensorProto::EXTERNAL}};
  std::vector<Field> filled;
  for (const Field& field : all)
    if (field.size > 0) filled.push_back(field);
  return filled;
}

std::string_view typed_field(const Tensor& tensor) {
  switch (tensor.proto.data_type()) {
    case TensorProto::FLOAT:
      return "float_data";
    case TensorProto::DOUBLE:
      return "double_data";
    case TensorProto::INT64:
      return "int64_data";
    case TensorProto::UINT32:
      return "uint64_data";
    default:
      return "int32_data";
  }
}

Result<ExternalRange> external_range(const Tensor& tensor) {
  ExternalRange range;
  std::set<std::string_view> seen;
  for (const auto& entry : tensor.proto.external_data()) {
    if (!seen.insert(entry.key()).second)
      return tensor.invalid(fmt::format("external data give '{}' twice", printable(entry.key())));
    if (entry.key() == "location") range.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const auto number = parse_int(entry.value());
    if (!number || *number < 0)
      return tensor.invalid(fmt::format("the {} '{}' of external data is no number of bytes",
                                        entry.key(), printable(entry.value())));
    if (entry.key() == "offset") range.offset = *number;
    if (entry.key() == "length") range.length = *number;
  }
  if (range.location.empty()) return tensor.invalid("external data have no location");
  return range;
}

/// Makes an array of the tensor's elements, which `bytes` has as little-endian numbers. Bools
/// become 0 or 1.
dsl::Array from_bytes(const Tensor& tensor, std::vector<std::byte> bytes) {
  dsl::Array array{tensor.type, tensor.shape, std::move(bytes)};
  if (tensor.type == Bool)
    for (std::byte& value : array.data) value = std::byte{value != std::byte{0}};
  return array;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// Makes an array from a field whose numbers have more bytes than the elements of the tensor. The
/// field holds elements of f16 and bf16 as their bits. Fails with Invalid if a number is out of the
/// range of the element type.
template <typename T>
Result<dsl::Array> from_wide(const Tensor& tensor,
                             const google::protobuf::RepeatedField<T>& numbers) {
  dsl::Array array{tensor.type, tensor.shape, {}};
  const IntegerLimits limits = integer_limits(is_float(tensor.type) ? UInt16 : tensor.type);
  const size_t bytes = static_cast<size_t>(size_bytes(tensor.type));
  array.data.resize(static_cast<size_t>(tensor.elements) * bytes);
  std::byte* to = array.data.data();
  for (const T value : numbers) {
    if (std::cmp_less(value, limits.least) || std::cmp_greater(value, limits.largest))
      return tensor.invalid(fmt::format("{} is no {}", value, to_string(tensor.type)));
    std::memcpy(to, &value, bytes);
    to += bytes;
  }
  return array;
}

template <typename T>
dsl::Array from_numbers(const Tensor& tensor, const google::protobuf::RepeatedField<T>& numbers) {
  std::vector<std::byte> bytes(static_cast<size_t>(numbers.size()) * sizeof(T));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return from_bytes(tensor, std::move(bytes));
}

Result<dsl::Array> from_field(const Tensor& tensor, const Field& field,
                              const DataFolders& folders) {
  const TensorProto& proto = tensor.proto;
  const int64_t bytes = tensor.elements * size_bytes(tensor.type);
  if (field.name == "external_data") {
    TW_TRY(const ExternalRange range, external_range(tensor));
    TW_TRY(std::vector<std::byte> data, read_external(folders, range, bytes));
    return from_bytes(tensor, std::move(data));
  }
  if (field.name == "raw_data") {
    if (field.size != bytes)
      return tensor.invalid(fmt::format("raw_data has {} bytes, expected {}", field.size, bytes));
    return from_bytes(tensor, bytes_of(proto.raw_data()));
  }
  if (field.name != typed_field(tensor))
    return tensor.invalid(
        fmt::format("its elements are in {}, expected {}", field.name, typed_field(tensor)));
  if (field.size != tensor.elements)
    return tensor.invalid(
        fmt::format("{} has {} elements, expected {}", field.name, field.size, tensor.elements));
  if (field.name == "float_data") return from_numbers(tensor, proto.float_data());
  if (field.name == "double_data") return from_numbers(tensor, proto.double_data());
  if (field.name == "int64_data") return from_numbers(tensor, proto.int64_data());
  if (field.name == "uint64_data") return from_wide(tensor, proto.uint64_data());
  return from_wide(tensor, proto.int32_data());
}

}  // namespace

Result<dsl::Array> TensorReader::read(const TensorProto& proto) {
  TW_TRY(const Tensor tensor, describe(proto));
  const std::vector<Field> fields = filled_fields(proto);
  if (fields.size() > 1)
    return tensor.invalid(
        fmt::format("its elements are in {} and in {}", fields[0].name, fields[1].name));
  if (fields.empty() && tensor.elements > 0)
    return tensor.invalid(fmt::format("it has no data, expected {} elements", tensor.elements));
  if (tensor.elements > left_bytes_ / size_bytes(tensor.type))
    return tensor.fail(ErrorCode::Unsupported,
                       "the constants of the model are larger than the limit (most_bytes)");
  if (fields.empty()) return dsl::Array{tensor.type, tensor.shape, {}};
  TW_TRY(dsl::Array array, from_field(tensor, fields[0], folders_));
  left_bytes_ -= std::ssize(array.data);
  return array;
}

}  // namespace tw::graph::onnx
