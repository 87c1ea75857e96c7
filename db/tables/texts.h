// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the texts of a record as one compressed blob. Schedules, targets and devices
// repeat what others of their kind say, which a dictionary that is part of the program has, so that
// 1,000 bytes become some 200 (Zstandard, RFC 8878). Each blob can be read without any other row.
// Thread-safe.

#include <optional>
#include <string>
#include <string_view>

namespace tw::db {

/// Text that schedules and targets have in common. It never changes: what is stored is read by it.
std::string_view text_dictionary();

/// Compresses text of at most 4 MiB.
std::string packed(std::string_view text);

/// The text of a blob; nullopt where the blob is damaged or of a newer program.
std::optional<std::string> unpacked(std::string_view blob);

}  // namespace tw::db
