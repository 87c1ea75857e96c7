// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/wire.h"

#include <fmt/format.h>

#include <optional>

namespace tw::graph::onnx {
namespace {

/// Removes a varint, a protobuf integer of variable length, from the front of `bytes` and returns
/// it; nullopt if it is incomplete.
std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// Removes the value of a field of this wire type from the front of `bytes`. Returns false if the
/// value is incomplete or the wire type is unknown.
bool take_value(uint64_t wire_type, std::string_view& bytes) {
  std::optional<uint64_t> size;
  if (wire_type == 0) return take_varint(bytes).has_value();
  if (wire_type == 1) size = 8;
  if (wire_type == 2) size = take_varint(bytes);
  if (wire_type == 5) size = 4;
  if (!size || *size > bytes.size()) return false;
  bytes.remove_prefix(*size);
  return true;
}

}  // namespace

Status check_unread(std::string_view unread, const FieldSet& fields, const std::string& what) {
  while (!unread.empty()) {
    const auto tag = take_varint(unread);
    if (!tag || !take_value(*tag & 7, unread))
      return fail(ErrorCode::Invalid, fmt::format("[onnx] {} has a damaged field", what));
    if (fields.contains(*tag >> 3))
      return fail(ErrorCode::Invalid,
                  fmt::format("[onnx] {}: field {} has a wrong type or value", what, *tag >> 3));
  }
  return {};
}

}  // namespace tw::graph::onnx
