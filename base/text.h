// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small text tools that the parsers and messages of the project share. Locale-independent: a
// decimal comma in the environment changes nothing.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

/// An ASCII digit, whatever the locale.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// The lower case of an ASCII letter, whatever the locale; any other character itself.
inline char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
std::string_view trim(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
/// Words between white space.
std::vector<std::string> words(std::string_view text);
/// A number with its noun: "1 thread", "2 threads".
std::string counted(int64_t count, std::string_view noun);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// The first `count` lines that are not empty, trimmed, as one: "a; b; ...".
std::string first_lines(std::string_view text, int count);

/// The whole text as a number, or nullopt; no leading or trailing characters, no overflow.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// True if all characters are lower-case hex digits; also of an empty text.
bool is_hex(std::string_view text);
/// Bytes in lower-case hex, and back. bytes_of_hex() takes upper case too. Requires: an even number
/// of hex digits.
std::string hex_of_bytes(std::string_view bytes);
std::string bytes_of_hex(std::string_view hex);

/// The shortest text that parses back to the same double ("nan", "inf" and "-inf" included).
std::string format_double(double value);
/// Appends format_double(value).
void append_double(std::string& text, double value);

/// The text as a quoted string of Graphviz' dot language; newlines become line breaks of labels.
std::string graphviz_quoted(std::string_view text);

/// The candidate nearest to `word` by edit distance, case aside; none where no typo is likely.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace tw
