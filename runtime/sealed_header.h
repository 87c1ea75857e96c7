// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the files of kernels and of networks have in common: they begin with
//
//     magic, 8 bytes | u32 header length, little endian | JSON header
//
// and continue with sections whose sizes and SHA-256 are fields of the header. The header has its
// own SHA-256 as the field "header_hash" and is exactly the text that the writer prints, so no byte
// of it can change unnoticed. Errors are Invalid and say what is wrong of "it", the file.
//
// For our sources alone: not installed. Free functions; thread-safe.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::runtime {

/// Bytes before the text of the header.
inline constexpr size_t header_prefix_bytes = 12;

/// The beginning of a file: magic, length and the header with its hash. Fails if a text of it is
/// not UTF-8. Requires: a magic of 8 bytes.
Result<std::string> seal_header(std::string_view magic, nlohmann::json header);

/// The text of the header of a file that begins with `magic`. Fails if it does not, or if it ends
/// before the header does or the header has more than `most_bytes`.
Result<std::string_view> header_text(std::string_view bytes, std::string_view magic,
                                     int64_t most_bytes);

/// Parses a header and checks its hash. The result has no "header_hash".
Result<nlohmann::json> unseal_header(std::string_view text);

/// Removes `bytes` bytes from the front of `rest` and returns them. Fails, naming the section, if
/// there are fewer.
Result<std::string_view> take_section(std::string_view name, uint64_t bytes,
                                      std::string_view& rest);
Status check_section(std::string_view name, std::string_view bytes, std::string_view hash);

}  // namespace tw::runtime
