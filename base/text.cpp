// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace tw {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

/// Table from a character to its value as a hex digit: 'a' gives 10.
constexpr std::array<unsigned char, 256> make_digit_values() {
  std::array<unsigned char, 256> values = {};
  for (unsigned char value = 0; value < 16; ++value) {
    values[static_cast<unsigned char>(hex_digits[value])] = value;
    values[static_cast<unsigned char>("0123456789ABCDEF"[value])] = value;
  }
  return values;
}

int digit_of(char hex) {
  static constexpr std::array<unsigned char, 256> values = make_digit_values();
  return values[static_cast<unsigned char>(hex)];
}

}  // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string_view::npos; begin = end + 1)
    parts.emplace_back(text.substr(begin, end - begin));
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  size_t i = 0;
  while (i < text.size()) {
    while (i < text.size() && std::string_view(" \t\r\n").find(text[i]) != std::string_view::npos)
      ++i;
    const size_t begin = i;
    while (i < text.size() && std::string_view(" \t\r\n").find(text[i]) == std::string_view::npos)
      ++i;
    if (i > begin) result.emplace_back(text.substr(begin, i - begin));
  }
  return result;
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) text += separator;
    text += parts[i];
  }
  return text;
}

std::string first_lines(std::string_view text, int count) {
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n')) {
    if (std::ssize(lines) == count) break;
    if (!trim(line).empty()) lines.emplace_back(trim(line));
  }
  return join(lines, "; ");
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_double(std::string_view text) {
  double value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_hex(std::string_view text) {
  return text.find_first_not_of(hex_digits) == std::string_view::npos;
}

std::string bytes_of_hex(std::string_view hex) {
  std::string bytes(hex.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(digit_of(hex[2 * i]) * 16 + digit_of(hex[2 * i + 1]));
  return bytes;
}

std::string hex_of_bytes(std::string_view bytes) {
  std::string hex(2 * bytes.size(), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    hex[2 * i] = hex_digits[static_cast<unsigned char>(bytes[i]) >> 4];
    hex[2 * i + 1] = hex_digits[static_cast<unsigned char>(bytes[i]) & 15];
  }
  return hex;
}

void append_double(std::string& text, double value) {
  if (std::isnan(value)) {
    text += "nan";
  } else if (std::isinf(value)) {
    text += value > 0 ? "inf" : "-inf";
  } else {
    char buffer[64];
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
    (void)error;
    text.append(buffer, end);
  }
}

std::string format_double(double value) {
  std::string text;
  append_double(text, value);
  return text;
}

std::string graphviz_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else
      quoted += c;
  }
  return quoted + "\"";
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  // Few edits turn a short word into any other: "m" is no misspelling of "k". So the allowed
  // distance grows with the length of the word.
  const size_t most = word.size() < 2   ? 0
                      : word.size() < 4 ? 1
                                        : std::max<size_t>(2, word.size() / 3);
  std::optional<std::string> best;
  size_t best_distance = most + 1;
  for (const std::string& candidate : candidates) {
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t substitute = diagonal + (to_lower(word[i - 1]) != to_lower(candidate[j - 1]));
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace tw
