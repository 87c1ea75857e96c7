// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the texts of a record as one compressed blob (Zstandard, RFC 8878). Schedules,
// targets and devices of different records have much text in common. This text is in a dictionary
// that is part of the program, so 1,000 bytes become some 200. Each blob can be read without any
// other row of the table. Thread-safe.

#include <optional>
#include <string>
#include <string_view>

namespace tw::db {

/// Returns the dictionary, which has text that schedules and targets have in common. It never
/// changes, because stored blobs can only be read with the dictionary with which they were made.
std::string_view text_dictionary();

/// Compresses text of at most 4 MiB.
std::string packed(std::string_view text);

/// Returns the text of a blob; nullopt if the blob is damaged or was written by a newer program.
std::optional<std::string> unpacked(std::string_view blob);

}  // namespace tw::db
