// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file format that the artifacts of kernels and of networks share. A file begins with
//
//     magic, 8 bytes | u32 header length, little endian | JSON header
//
// and continues with sections, whose sizes and SHA-256 are fields of the header. The header has its
// own SHA-256 in the field "header_hash". The header must be exactly the text that the writer
// prints, so no byte of the header can change unnoticed.
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
/// throw exceptions of nlohmann::json, as it does for a field that is missing or has another type;
/// an exception becomes an error.
Status read_header(std::string_view text, const std::function<Status(const nlohmann::json&)>& read);

/// Reads integers of a header. They throw exceptions of nlohmann::json for values that are no
/// integers, such as 1.5 and true, which get<int64_t>() would convert. A number that does not fit
/// int64_t becomes negative, and one that does not fit int becomes -1; the checks of sizes and
/// indices refuse both.
int64_t integer_from(const nlohmann::json& value);
int int_from(const nlohmann::json& value);
std::vector<int64_t> integers_from(const nlohmann::json& values);
std::vector<int> ints_from(const nlohmann::json& values);

/// Size and hash of a part of a file after its header, as the header gives them.
struct Section {
  uint64_t bytes = 0;
  std::string hash;  ///< SHA-256, 64 hex digits
};

/// Reads the size and the hash of a section from a header. Throws as integer_from().
Section section_from(const nlohmann::json& bytes, const nlohmann::json& hash);

/// Removes `bytes` bytes from the front of `rest` and returns them. Fails, naming the section, if
/// `rest` is shorter.
Result<std::string_view> take_bytes(std::string_view name, uint64_t bytes, std::string_view& rest);

/// Removes the section from the front of `rest`, and returns a copy of it after checking the hash
/// of the copy. The copy is made first, so the caller gets the bytes that were checked, even if a
/// mapped file changes meanwhile. Fails as take_bytes() and check_section().
Result<std::string> take_section(std::string_view name, const Section& section,
                                 std::string_view& rest);

/// Checks that the bytes have the section's hash. Fails, naming the section, if not.
Status check_section(std::string_view name, std::string_view bytes, const Section& section);

}  // namespace tw::runtime
