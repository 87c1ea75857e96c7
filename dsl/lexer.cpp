// SPDX-License-Identifier: Apache-2.0
#include "dsl/lexer.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tw::dsl {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // editors of Windows write it
constexpr size_t largest_text = size_t{1} << 20;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {
    if (text_.starts_with(byte_order_mark)) text_.remove_prefix(byte_order_mark.size());
  }

  Result<std::vector<Token>> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '\n') {
        end_of_line();
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == ';') {
        end_declaration(1);
      } else if (is_letter(c)) {
        add(Token::Name, name_length());
      } else if (is_digit(c)) {
        add(Token::Number, number_length());
      } else {
        TW_RETURN_IF_ERROR(symbol());
      }
    }
    end_declaration(0);
    add(Token::End, 0);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void add(Token::Kind kind, size_t length) {
    tokens_.push_back({kind, std::string(text_.substr(at_, length)), line_,
                       static_cast<int>(at_ - line_start_) + 1});
    at_ += length;
  }

  void end_declaration(size_t length) {
    const bool blank = tokens_.empty() || tokens_.back().kind == Token::EndOfDeclaration;
    if (blank) {
      at_ += length;
    } else {
      add(Token::EndOfDeclaration, length);
    }
  }

  void end_of_line() {
    if (depth_ == 0) end_declaration(0);
    ++at_;
    ++line_;
    line_start_ = at_;
  }

  /// Returns the length of the name that begins here. Names of loop variables have dots: oc.0.1
  size_t name_length() const {
    size_t n = 1;
    while (is_word(peek(n)) || (peek(n) == '.' && is_word(peek(n + 1)))) ++n;
    return n;
  }

  /// Returns the length of the number that begins here. A number has digits, and may have a
  /// fraction, an exponent and a data type: 3, 1.5, 2e-7, 1.0f16.
  size_t number_length() const {
    size_t n = 1;
    while (is_digit(peek(n))) ++n;
    if (peek(n) == '.' && is_digit(peek(n + 1))) {
      ++n;
      while (is_digit(peek(n))) ++n;
    }
    if (peek(n) == 'e' || peek(n) == 'E') {
      const size_t sign = peek(n + 1) == '+' || peek(n + 1) == '-';
      if (is_digit(peek(n + 1 + sign))) {
        n += 2 + sign;
        while (is_digit(peek(n))) ++n;
      }
    }
    while (is_word(peek(n))) ++n;
    return n;
  }

  Status symbol() {
    for (const std::string_view two : {"<=", ">=", "==", "!=", "&&", "||", "<<", ">>"})
      if (text_.substr(at_, 2) == two) {
        add(Token::Symbol, 2);
        return {};
      }
    const char c = text_[at_];
    if (std::string_view("+-*/%<>!=()[],:@&|^").find(c) == std::string_view::npos) {
      add(Token::Symbol, 1);
      const bool printable = c > ' ' && c < 127;
      return parse_error(tokens_.back(),
                         printable ? fmt::format("'{}' is no part of the language", c)
                                   : fmt::format("the byte 0x{:02x} is no part of the language",
                                                 static_cast<unsigned char>(c)));
    }
    if (c == '(' || c == '[') ++depth_;
    if ((c == ')' || c == ']') && depth_ > 0) --depth_;
    add(Token::Symbol, 1);
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  int depth_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view text) {
  if (text.size() > largest_text)
    return fail(ErrorCode::Invalid, fmt::format("[parse] {} bytes of text, at most {} are read",
                                                text.size(), largest_text));
  return Lexer(text).run();
}

tl::unexpected<Error> parse_error(const Token& at, const std::string& what) {
  return fail(ErrorCode::Invalid,
              fmt::format("[parse] line {}, column {}: {}", at.line, at.column, what));
}

std::string quoted(const Token& token) {
  if (token.kind == Token::End) return "the end of the text";
  if (token.kind == Token::EndOfDeclaration) return "the end of the declaration";
  return "'" + token.text + "'";
}

}  // namespace tw::dsl
