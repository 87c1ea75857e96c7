// SPDX-License-Identifier: Apache-2.0
#pragma once
// Splits the text of computes into tokens for dsl/parse.cpp.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::dsl {

struct Token {
  enum Kind { Name, Number, Symbol, EndOfDeclaration, End };
  Kind kind = End;
  std::string text;
  int line = 1;
  int column = 1;
};

/// Splits the text into tokens; the last token is End. Comments, empty declarations and a byte
/// order mark at the start give no tokens. Fails with Invalid if the text is longer than 2^20 bytes
/// or has a character that the language does not use.
Result<std::vector<Token>> tokenize(std::string_view text);

/// Returns the error `[parse] line 3, column 14: <what>`, with the line and the column of the
/// token.
tl::unexpected<Error> parse_error(const Token& at, const std::string& what);

/// Returns the token as error messages quote it: "'+'", "the end of the declaration".
std::string quoted(const Token& token);

}  // namespace tw::dsl
