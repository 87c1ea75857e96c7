// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file format that the artifacts of kernels and of networks share. A file begins with
//
//     magic, 8 bytes | u32 header length, little endian | JSON header
//
// and continues with sections. The sizes and SHA-256 hashes of the sections are fields of the
// header. The header has its own SHA-256 in the field "header_hash". The header must be exactly the
// text that the writer prints, so no byte of the header can change unnoticed.
//
//     TW_TRY(const std::string_view text, header_text(bytes, magic, most_header_bytes));
//     TW_RETURN_IF_ERROR(read_header(text, [&](const Json& json) { return ...; }));
//     std::string_view rest = bytes.substr(header_prefix_bytes + text.size());
//     TW_TRY(const std::string object, take_section("object", section, rest));
//
// All errors are Invalid. Their messages do not name the file but say "it"; the caller adds the
// name.
//
// Private to runtime/: not installed. Free functions; thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::runtime {

/// Number of bytes before the text of the header: magic and length.
inline constexpr size_t header_prefix_bytes = 12;

/// The magics of the files of kernels and of networks, without their versions.
inline constexpr std::string_view kernel_magic_stem = "TWARTF", network_magic_stem = "TWNETF";

/// Returns the beginning of a file: magic, length, and the header with its hash. Fails if a string
/// in the header is not UTF-8. Requires: a magic of 8 bytes.
Result<std::string> seal_header(std::string_view magic, nlohmann::json header);

/// Returns the text of the header of a file. Fails if the file does not begin with `magic` or is
/// shorter than its header, or if the header is longer than `most_bytes`.
Result<std::string_view> header_text(std::string_view bytes, std::string_view magic,
                                     int64_t most_bytes);

/// Parses a header, checks its hash, and calls `read` with the header without the hash. `read` may
/// throw exceptions of nlohmann::json, for example because a field is missing or has another type.
/// Such an exception becomes an error.
Status read_header(std::string_view text, const std::function<Status(const nlohmann::json&)>& read);

/// These functions read integers of a header. They throw exceptions of nlohmann::json for values
/// that are no integers, such as 1.5 and true. (get<int64_t>() would convert these.) A number that
/// does not fit int64_t becomes negative, and a number that does not fit int becomes -1. Both are
/// refused later, by the checks of sizes and indices.
int64_t integer_from(const nlohmann::json& value);
int int_from(const nlohmann::json& value);
std::vector<int64_t> integers_from(const nlohmann::json& values);
std::vector<int> ints_from(const nlohmann::json& values);

/// Size and hash of a part of a file after its header. The header states them.
struct Section {
  uint64_t bytes = 0;
  std::string hash;  ///< SHA-256, 64 hex digits
};

/// Reads the size and the hash of a section from a header. Throws exceptions of nlohmann::json,
/// like integer_from().
Section section_from(const nlohmann::json& bytes, const nlohmann::json& hash);

/// Removes `bytes` bytes from the front of `rest` and returns them. Fails if `rest` is shorter; the
/// message names the section.
Result<std::string_view> take_bytes(std::string_view name, uint64_t bytes, std::string_view& rest);

/// Removes the section from the front of `rest` and copies it. Returns the copy if it has the
/// section's hash. The bytes are copied before they are checked, so the caller gets checked bytes
/// even if a mapped file changes meanwhile. Fails with the errors of take_bytes() and
/// check_section().
Result<std::string> take_section(std::string_view name, const Section& section,
                                 std::string_view& rest);

/// Checks that the bytes have the section's hash. If not, fails; the message names the section.
Status check_section(std::string_view name, std::string_view bytes, const Section& section);

}  // namespace tw::runtime
