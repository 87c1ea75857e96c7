// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small text functions that parsers and messages share. None depends on the locale; a decimal
// point, for example, is always a point.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

/// True for an ASCII digit in every locale.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Returns the lower case of an ASCII letter in every locale, and any other character unchanged.
inline char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
std::string_view trim(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
/// Splits the text at white space; empty words are left out.
std::vector<std::string> words(std::string_view text);
/// Returns a number with its noun: counted(1, "thread") is "1 thread", counted(2, "thread") is "2
/// threads".
std::string counted(int64_t count, std::string_view noun);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// Returns the first `count` lines that are not empty, trimmed and joined on one line by "; ": "a;
/// b".
std::string first_lines(std::string_view text, int count);

/// Parse the whole text as a number. Return nullopt if the text has any other characters, white
/// space included, or if the number is out of range.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// True if all characters are lower-case hex digits. An empty text counts as hex.
bool is_hex(std::string_view text);
/// hex_of_bytes() converts bytes to lower-case hex, and bytes_of_hex() converts them back.
/// bytes_of_hex() accepts upper case too. Requires: `hex` has an even number of hex digits and
/// nothing else.
std::string hex_of_bytes(std::string_view bytes);
std::string bytes_of_hex(std::string_view hex);

/// Returns the shortest text that parses back to the same double ("nan", "inf", "-inf" included).
std::string format_double(double value);
/// Appends format_double(value).
void append_double(std::string& text, double value);

/// Returns the text as a quoted string of Graphviz's dot language. A newline becomes a line break
/// of the label.
std::string graphviz_quoted(std::string_view text);

/// Returns the candidate nearest to `word` by edit distance, ignoring case. Returns nullopt if
/// every candidate is so far from `word` that `word` is probably not a misspelling of it.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace tw
