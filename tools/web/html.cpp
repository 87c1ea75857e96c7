// SPDX-License-Identifier: Apache-2.0
#include "tools/web/html.h"

#include <array>
#include <cstdint>

namespace tw::tools::web {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  ///< length in UTF-8; 0: the text does not begin with a valid character
};

/// Decodes the first character of a UTF-8 text. Requires: the text is not empty.
Character first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const size_t bytes = lead < 0x80            ? 1
                       : lead >> 5 == 0b110   ? 2
                       : lead >> 4 == 0b1110  ? 3
                       : lead >> 3 == 0b11110 ? 4
                                              : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  uint32_t code = bytes == 1 ? lead : lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 0b10) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_valid =
      code >= least[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return is_valid ? Character{code, bytes} : Character{};
}

/// True for control characters, invisible characters, and characters that change the direction of
/// the text after them.
bool is_hidden(uint32_t c) {
  const auto in = [c](uint32_t first, uint32_t last) { return first <= c && c <= last; };
  return (c < 0x20 && c != '\n' && c != '\t') || in(0x7f, 0x9f) || c == 0xad || c == 0x61c ||
         c == 0x180e || in(0x200b, 0x200f) || in(0x2028, 0x202e) || in(0x2060, 0x206f) ||
         c == 0xfeff || in(0xfff9, 0xfffb) || in(0xe0000, 0xe007f);
}

std::string_view escape_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string visible(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto [code, bytes] = first_of(text);
    if (bytes == 0)
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (is_hidden(code))
      shown += fmt::format("\\u{:04x}", code);
    else
      shown += text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return shown;
}

std::string one_line(std::string_view text, size_t most) {
  std::string line;
  size_t characters = 0;
  const std::string shown = visible(text);
  for (std::string_view rest = shown; !rest.empty();) {
    const size_t bytes = first_of(rest).bytes;
    if (most > 0 && ++characters > most) return line + "…";
    line += rest[0] == '\n' ? "\\n" : rest[0] == '\t' ? "\\t" : rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  return line;
}

std::string markup_of(std::string_view text) {
  std::string markup;
  for (const char c : visible(text)) {
    const std::string_view escape = escape_of(c);
    if (escape.empty())
      markup += c;
    else
      markup += escape;
  }
  return markup;
}

Html link(std::string_view address, std::string_view text) {
  return html("<a href=\"{}\">{}</a>", address, text);
}

}  // namespace tw::tools::web
