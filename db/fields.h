// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: what the facts of a database (records, calibrations) have in common. Thread-safe.

#include <cstddef>
#include <string>
#include <string_view>

namespace tw::db {

/// The longest text of a field that names something.
inline constexpr size_t max_text_bytes = 4 << 10;

/// Appends a field to a canonical text: `name:N:value` and a line feed, N being the bytes of the
/// value.
void append_field(std::string& text, std::string_view name, std::string_view value);

/// Text that a database holds is UTF-8 without NUL.
bool is_valid_text(std::string_view text);

}  // namespace tw::db
