// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the fields of a message that the protobuf parser did not read. If a field has another wire
// type than the schema says, or a value that its enumeration does not have, the parser keeps the
// field among the unknown fields. Without this check its value would be lost silently. Private to
// graph/onnx; pure functions.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::graph::onnx {

/// A set of protobuf field numbers, each from 1 to 63.
class FieldSet {
 public:
  constexpr FieldSet(std::initializer_list<int> fields) {
    for (const int field : fields) bits_ |= uint64_t{1} << field;
  }
  constexpr bool contains(uint64_t field) const { return field < 64 && (bits_ >> field & 1); }

 private:
  uint64_t bits_ = 0;
};

/// Checks that no field of the schema is among the unknown fields of a protobuf message. `unread`
/// has the unknown fields in the form in which the parser keeps them, and `fields` has the numbers
/// of the schema's fields. Fails with Invalid, in a message that begins with `what`, if `unread`
/// has a field with one of these numbers or a damaged field. Fields of later schemas are accepted.
Status check_unread(std::string_view unread, const FieldSet& fields, const std::string& what);

}  // namespace tw::graph::onnx
