// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the fields that the protobuf parser did not read. The parser treats a field with another
// wire type than the schema's, and a value that an enumeration does not have, as unknown fields, so
// that they would be lost silently. Private to graph/onnx; pure functions.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::graph::onnx {

/// Numbers of the fields of a message, 1 to 63.
class FieldSet {
 public:
  constexpr FieldSet(std::initializer_list<int> fields) {
    for (const int field : fields) bits_ |= uint64_t{1} << field;
  }
  constexpr bool contains(uint64_t field) const { return field < 64 && (bits_ >> field & 1); }

 private:
  uint64_t bits_ = 0;
};

/// Invalid, naming `what`, if `unread` has a field of the schema (`fields`). `unread` are the
/// unknown fields of a message, in the form in which the parser keeps them. Fields of later schemas
/// are accepted.
Status check_unread(std::string_view unread, const FieldSet& fields, const std::string& what);

}  // namespace tw::graph::onnx
