// SPDX-License-Identifier: Apache-2.0
#pragma once
// Content hashes: SHA-256 in lower-case hex. The same bytes give the same text on every machine, so
// a hash may be stored, compared and merged. Thread-safe.

#include <string>
#include <string_view>

namespace tw {

/// 64 hex digits.
std::string sha256_hex(std::string_view bytes);

/// The first 16 hex digits of sha256_hex: long enough to name an artifact, short enough to type.
std::string short_hash(std::string_view bytes);

}  // namespace tw
