// SPDX-License-Identifier: Apache-2.0
#include "db/fields.h"

#include <cstdint>
#include <cstring>
#include <string>

namespace tw::db {
namespace {

/// Returns the number of ASCII bytes at the beginning of the text, rounded down to whole words of
/// the processor. It is a fast check for most texts, which are ASCII only.
size_t ascii_bytes(std::string_view text) {
  constexpr uint64_t high_bits = 0x8080'8080'8080'8080;
  size_t bytes = 0;
  for (uint64_t word = 0; bytes + sizeof word <= text.size(); bytes += sizeof word) {
    std::memcpy(&word, text.data() + bytes, sizeof word);
    if (word & high_bits) break;
  }
  return bytes;
}

bool is_between(char c, unsigned char low, unsigned char high) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= low && byte <= high;
}

/// Returns the length in bytes of the first character of the text. 0 if the text does not begin
/// with valid UTF-8: RFC 3629 requires the shortest form, no surrogates, and at most U+10FFFF.
size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (!is_between(text[1], low, high)) return 0;
  for (size_t i = 2; i < bytes; ++i)
    if (!is_between(text[i], 0x80, 0xbf)) return 0;
  return bytes;
}

}  // namespace

void append_field(std::string& text, std::string_view name, std::string_view value) {
  ((text += name) += ':') += std::to_string(value.size());
  ((text += ':') += value) += '\n';
}

bool is_valid_text(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return false;
  while (true) {
    text.remove_prefix(ascii_bytes(text));
    if (text.empty()) return true;
    const size_t bytes = character_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
}

}  // namespace tw::db
