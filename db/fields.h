// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the canonical form of fields, from which hashes are computed, and the check of
// texts. Records and calibrations use both. Thread-safe.

#include <cstddef>
#include <string>
#include <string_view>

namespace tw::db {

/// Largest size in bytes of a short text, such as the name of a device.
inline constexpr size_t max_text_bytes = 4 << 10;

/// Appends a field to a canonical text: the line `name:N:value`, where N is the size of the value
/// in bytes. For example, `op:6:conv2d`.
void append_field(std::string& text, std::string_view name, std::string_view value);

/// True if the text is UTF-8 without NUL, as every text in a database must be.
bool is_valid_text(std::string_view text);

}  // namespace tw::db
