// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: text and canonical form of fields, for both kinds of facts in a database (records
// and calibrations). Thread-safe.

#include <cstddef>
#include <string>
#include <string_view>

namespace tw::db {

/// Most bytes of a field that is a name.
inline constexpr size_t max_text_bytes = 4 << 10;

/// Appends a field to a canonical text: `name:N:value` and a line feed, N being the bytes of the
/// value.
void append_field(std::string& text, std::string_view name, std::string_view value);

/// True if the text is UTF-8 without NUL, as every text in a database must be.
bool is_valid_text(std::string_view text);

}  // namespace tw::db
