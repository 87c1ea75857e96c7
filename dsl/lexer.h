// SPDX-License-Identifier: Apache-2.0
#pragma once
// Splits the text of computes into tokens. Only dsl/parse.cpp needs it.

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

/// Comments, blank declarations and a byte order mark at the start are left out; the last token is
/// End. At most 2^20 bytes.
Result<std::vector<Token>> tokenize(std::string_view text);

/// `[parse] line 3, column 14: <what>`
tl::unexpected<Error> parse_error(const Token& at, const std::string& what);

/// The token as error messages quote it: "'+'", "the end of the line".
std::string quoted(const Token& token);

}  // namespace tw::dsl
