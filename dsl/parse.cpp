// SPDX-License-Identifier: Apache-2.0
#include "dsl/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/hash.h"
#include "base/text.h"
#include "dsl/lexer.h"
#include "dsl/value.h"

namespace tw::dsl {
namespace {

// Nesting is limited to this many levels. They suffice for the printed form of every accepted
// expression.
constexpr int deepest_nesting = tallest_expression;

struct Signature {
  DType type;
  std::optional<size_t> rank;
};
using Signatures = std::map<std::string, Signature>;

std::vector<std::string> names_of(const Signatures& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, signature] : tensors) names.push_back(name);
  return names;
}

std::string hint(std::string_view word, const std::vector<std::string>& candidates) {
  const auto near = nearest(word, candidates);
  return near ? fmt::format("; did you mean '{}'?", *near) : "";
}

std::optional<UnaryOp> find_unary(std::string_view name) {
#define X(enumerator, text) \
  if (name == text) return UnaryOp::enumerator;
  TW_UNARY_OPS(X)
#undef X
  return std::nullopt;
}

std::optional<BinaryOp> find_binary(std::string_view text_of_op) {
#define X(enumerator, text, precedence) \
  if (text_of_op == text) return BinaryOp::enumerator;
  TW_BINARY_OPS(X)
#undef X
  return std::nullopt;
}

std::optional<Combine> find_combine(std::string_view name) {
  for (const Combine combine : {Combine::Sum, Combine::Prod, Combine::Min, Combine::Max})
    if (name == to_string(combine)) return combine;
  return std::nullopt;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names = {"select", "clamp"};
#define X(enumerator, text, ...) names.emplace_back(text);
  TW_UNARY_OPS(X)
  TW_DTYPES(X)
#undef X
#define X(enumerator, text, precedence) \
  if (precedence == 0) names.emplace_back(text);
  TW_BINARY_OPS(X)
#undef X
  return names;
}

/// Reads tokens one after the other. next() does not move beyond the last token, which is End.
class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& next() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is_symbol(std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Symbol && peek(ahead).text == text;
  }
  bool accept(std::string_view symbol) {
    if (!is_symbol(symbol)) return false;
    next();
    return true;
  }
  Status expect(std::string_view symbol) {
    if (accept(symbol)) return {};
    return parse_error(peek(), fmt::format("expected '{}', found {}", symbol, quoted(peek())));
  }
  Result<std::string> expect_name(std::string_view what) {
    if (peek().kind == Token::Name) return next().text;
    return parse_error(peek(), fmt::format("expected {}, found {}", what, quoted(peek())));
  }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// ---- literals -------------------------------------------------------------------------------

/// True if an integer literal without a type may become a literal of `type`. A float type rounds
/// the number; an integer type must contain it.
bool can_hold(DType type, int64_t literal) {
  return is_float(type) || wrap_to(type, literal) == literal;
}

Result<Expr> float_literal(const Token& token, std::string_view digits, DType type) {
  const auto value = parse_double(digits);
  if (!value || std::isinf(round_to(type, *value)))
    return parse_error(token,
                       fmt::format("'{}' does not fit into {}", token.text, to_string(type)));
  return constant(type, *value);
}

Result<Expr> int_literal(const Token& token, std::string_view digits, DType type) {
  const auto value = parse_int(digits);
  if (!value || !can_hold(type, *value))
    return parse_error(token,
                       fmt::format("'{}' does not fit into {}", token.text, to_string(type)));
  return constant_int(type, *value);
}

Result<Expr> number(const Token& token, bool negative) {
  const std::string text = (negative ? "-" : "") + token.text;
  size_t end = negative;
  const auto is_part = [&](size_t i) {
    const char c = text[i];
    if ((c >= '0' && c <= '9') || c == '.') return true;
    const bool sign = c == '+' || c == '-';
    if (sign) return true;  // the lexer accepts signs in exponents only
    const char after = i + 1 < text.size() ? text[i + 1] : '\0';
    return (c == 'e' || c == 'E') &&
           ((after >= '0' && after <= '9') || after == '+' || after == '-');
  };
  while (end < text.size() && is_part(end)) ++end;
  const std::string_view digits = std::string_view(text).substr(0, end);
  const std::string_view suffix = std::string_view(text).substr(end);
  const bool has_fraction = digits.find_first_of(".eE") != std::string_view::npos;
  DType type = has_fraction ? Float32 : Int64;
  if (!suffix.empty()) {
    const auto named = parse_dtype(suffix);
    if (!named || *named == Bool)
      return parse_error(
          token, fmt::format("'{}' is no number: '{}' is no number type", token.text, suffix));
    type = *named;
  }
  if (is_float(type)) return float_literal(token, digits, type);
  if (has_fraction)
    return parse_error(token, fmt::format("'{}' is no {}: write it without a fraction", token.text,
                                          to_string(type)));
  return int_literal(token, digits, type);
}

// ---- expressions ----------------------------------------------------------------------------

class ExprParser {
 public:
  /// `tensors` are the tensors that may be read. `variables` are the variables that may be used; if
  /// `variables` is null, any name is a variable. `stage` is the name of the stage that the
  /// expression defines.
  ExprParser(TokenReader& reader, const Signatures& tensors,
             const std::vector<std::string>* variables, std::string stage = {})
      : reader_(reader), tensors_(tensors), variables_(variables), stage_(std::move(stage)) {}

  Result<Expr> parse() { return parse_binary(1); }

 private:
  using Pair = std::pair<Expr, Expr>;

  static Status check_height(const Token& at, const Expr& a, const Expr& b) {
    if (std::max(a.node().height, b.node().height) < tallest_expression) return {};
    return parse_error(
        at, fmt::format("an expression of more than {} levels: declare stages in between",
                        tallest_expression));
  }

  /// Parses operands and operators of precedence `lowest` or above, all left-associative, by
  /// precedence climbing.
  Result<Expr> parse_binary(int lowest) {
    TW_TRY(Expr left, parse_unary());
    while (reader_.peek().kind == Token::Symbol) {
      const std::string text = reader_.peek().text;
      const bool swapped = text == ">" || text == ">=";
      const auto op = find_binary(text == ">" ? "<" : text == ">=" ? "<=" : text);
      if (!op || precedence(*op) < lowest) break;
      const Token at = reader_.next();
      TW_TRY(Expr right, parse_binary(precedence(*op) + 1));
      if (swapped) std::swap(left, right);
      TW_TRY(left, combine(at, *op, left, right));
    }
    return left;
  }

  Result<Expr> parse_unary() {
    const Token at = reader_.peek();
    if (++nesting_ > deepest_nesting)
      return parse_error(at, fmt::format("nested deeper than {} levels", deepest_nesting));
    Result<Expr> parsed = parse_prefix(at);
    --nesting_;
    return parsed;
  }

  Result<Expr> parse_prefix(const Token& at) {
    if (reader_.accept("-")) {
      if (reader_.peek().kind == Token::Number) return number(reader_.next(), true);
      if (reader_.peek().kind == Token::Name && !reader_.is_symbol("(", 1))
        if (const auto named = named_constant(reader_.peek().text);
            named && is_float(named->type())) {
          reader_.next();
          return constant(named->type(), -named->as<Const>()->float_value);
        }
      TW_TRY(const Expr a, parse_unary());
      return apply(at, UnaryOp::Neg, a);
    }
    if (reader_.accept("!")) {
      TW_TRY(const Expr a, parse_unary());
      return apply(at, UnaryOp::Not, a);
    }
    return parse_primary();
  }

  Result<Expr> parse_primary() {
    const Token at = reader_.peek();
    if (at.kind == Token::Number) return number(reader_.next(), false);
    if (reader_.accept("(")) {
      TW_TRY(const Expr inner, parse());
      TW_RETURN_IF_ERROR(reader_.expect(")"));
      return inner;
    }
    if (at.kind != Token::Name)
      return parse_error(at, fmt::format("expected an expression, found {}", quoted(at)));
    reader_.next();
    if (reader_.is_symbol("(")) return parse_call(at);
    if (reader_.is_symbol("[")) return parse_read(at);
    if (const auto named = named_constant(at.text)) return *named;
    return parse_variable(at);
  }

  Result<Expr> parse_variable(const Token& at) const {
    if (!variables_) return var(at.text);
    for (const std::string& known : *variables_)
      if (known == at.text) return var(at.text);
    if (tensors_.count(at.text))
      return parse_error(
          at, fmt::format("'{}' is a tensor: read an element, as in {}[...]", at.text, at.text));
    return parse_error(
        at, fmt::format("'{}' is no axis of this stage{}", at.text, hint(at.text, *variables_)));
  }

  Result<std::vector<Expr>> parse_list(std::string_view open, std::string_view close) {
    TW_RETURN_IF_ERROR(reader_.expect(open));
    std::vector<Expr> items;
    if (reader_.accept(close)) return items;
    do {
      TW_TRY(Expr item, parse());
      items.push_back(std::move(item));
    } while (reader_.accept(","));
    TW_RETURN_IF_ERROR(reader_.expect(close));
    return items;
  }

  Result<Expr> parse_read(const Token& at) {
    const auto found = tensors_.find(at.text);
    if (found == tensors_.end() && at.text == stage_)
      return parse_error(
          at, fmt::format("'{}' reads itself, and a stage reads tensors that are declared before "
                          "it; a running sum, product, minimum or maximum is a scan, as in "
                          "sum(k <= j) x[k]",
                          at.text));
    if (found == tensors_.end())
      return parse_error(at, fmt::format("'{}' is no tensor declared before{}", at.text,
                                         hint(at.text, names_of(tensors_))));
    TW_TRY(std::vector<Expr> indices, parse_list("[", "]"));
    const auto [type, rank] = found->second;
    if (rank && *rank != indices.size())
      return parse_error(at, fmt::format("'{}' has {} dimensions, here are {} indices", at.text,
                                         *rank, indices.size()));
    for (const Expr& index : indices)
      if (index.type() != Int64)
        return parse_error(
            at, fmt::format("an index of '{}' is {}, expected i64: cast it with i64()", at.text,
                            to_string(index.type())));
    return read(at.text, std::move(indices), type);
  }

  /// True if `at` is the name of a reduction or scan, as in `sum(k=8)` or `max(k <= j)`. The caller
  /// then reports the error that a reduction must be the whole expression of a stage.
  bool is_reduction(const Token& at) const {
    const bool is_position = at.text == "argmax" || at.text == "argmin";
    if (!is_position && !find_combine(at.text)) return false;
    const bool compares = reader_.is_symbol("<=", 2) || reader_.is_symbol("<", 2);
    return reader_.is_symbol("=", 2) || (compares && reader_.is_symbol(")", 4));
  }

  Result<Expr> parse_call(const Token& at) {
    if (is_reduction(at))
      return parse_error(
          at, fmt::format("'{0}' inside of an expression: a reduction is the whole expression of a "
                          "stage; declare one, as in s: f32[i=4] = {0}(k=8) a[i, k], and read s[i] "
                          "here",
                          at.text));
    TW_TRY(const std::vector<Expr> args, parse_list("(", ")"));
    const auto takes = [&](size_t count) -> Status {
      if (args.size() == count) return {};
      return parse_error(
          at, fmt::format("'{}' takes {} operands, here are {}", at.text, count, args.size()));
    };
    if (const auto op = find_unary(at.text)) {
      TW_RETURN_IF_ERROR(takes(1));
      return apply(at, *op, args[0]);
    }
    if (const auto op = find_binary(at.text)) {
      TW_RETURN_IF_ERROR(takes(2));
      return combine(at, *op, args[0], args[1]);
    }
    if (at.text == "select") {
      TW_RETURN_IF_ERROR(takes(3));
      return make_select(at, args[0], args[1], args[2]);
    }
    if (at.text == "clamp") {
      TW_RETURN_IF_ERROR(takes(3));
      TW_TRY(const Expr low, combine(at, BinaryOp::Min, args[0], args[2]));
      return combine(at, BinaryOp::Max, low, args[1]);
    }
    if (const auto type = parse_dtype(at.text)) {
      TW_RETURN_IF_ERROR(takes(1));
      return cast(*type, args[0]);
    }
    return parse_error(
        at, fmt::format("'{}' is no function{}", at.text, hint(at.text, function_names())));
  }

  /// Makes the operands have one type: an Int64 literal is converted to the type of the other
  /// operand. Fails with Invalid if the literal does not fit that type, and for any other two
  /// different types.
  static Result<Pair> unify(const Token& at, const Expr& a, const Expr& b) {
    if (a.type() == b.type()) return Pair{a, b};
    const auto literal = [](const Expr& e) { return e.type() == Int64 && as_int(e).has_value(); };
    const bool first = literal(a);
    if (!first && !literal(b))
      return parse_error(
          at, fmt::format("'{}' joins {} and {}: cast one, as in {}(...)", at.text,
                          to_string(a.type()), to_string(b.type()), to_string(a.type())));
    const Expr& adapted = first ? a : b;
    const DType type = first ? b.type() : a.type();
    const int64_t value = *as_int(adapted);
    if (!can_hold(type, value))
      return parse_error(at, fmt::format("'{}' joins {} and {}, which does not fit into it",
                                         at.text, to_string(type), value));
    return first ? Pair{cast(type, a), b} : Pair{a, cast(type, b)};
  }

  static Result<Expr> combine(const Token& at, BinaryOp op, const Expr& x, const Expr& y) {
    TW_RETURN_IF_ERROR(check_height(at, x, y));
    TW_TRY(const Pair operands, unify(at, x, y));
    if (const auto why = type_error(op, operands.first.type())) return parse_error(at, *why);
    if (const auto why = divisor_error(op, operands.second)) return parse_error(at, *why);
    return binary(op, operands.first, operands.second);
  }

  static Result<Expr> apply(const Token& at, UnaryOp op, const Expr& a) {
    if (const auto why = type_error(op, a.type())) return parse_error(at, *why);
    return unary(op, a);
  }

  static Result<Expr> make_select(const Token& at, const Expr& condition, const Expr& x,
                                  const Expr& y) {
    if (condition.type() != Bool)
      return parse_error(
          at, fmt::format("'select' needs a bool condition, not {}", to_string(condition.type())));
    TW_TRY(const Pair values, unify(at, x, y));
    return select(condition, values.first, values.second);
  }

  TokenReader& reader_;
  const Signatures& tensors_;
  const std::vector<std::string>* variables_;
  std::string stage_;
  int nesting_ = 0;
};

// ---- declarations ---------------------------------------------------------------------------

class ComputeParser {
 public:
  explicit ComputeParser(std::vector<Token> tokens) : reader_(std::move(tokens)) {}

  Result<Compute> parse() {
    while (reader_.peek().kind != Token::End) {
      if (++declarations_ > most_declarations + 1)  // one more: the line of the outputs
        return parse_error(reader_.peek(),
                           fmt::format("more than {} declarations", most_declarations));
      TW_RETURN_IF_ERROR(parse_declaration());
      if (reader_.peek().kind != Token::EndOfDeclaration)
        return parse_error(
            reader_.peek(),
            fmt::format("expected the end of the declaration, found {}", quoted(reader_.peek())));
      reader_.next();
    }
    if (compute_.outputs.empty() && !compute_.stages.empty())
      compute_.outputs.push_back(compute_.stages.back().name);
    TW_RETURN_IF_ERROR(validate(compute_));
    return std::move(compute_);
  }

 private:
  Status parse_declaration() {
    const Token at = reader_.peek();
    if (at.kind != Token::Name)
      return parse_error(at, fmt::format("expected a declaration, found {}", quoted(at)));
    if (at.text == "input" || at.text == "weight") {
      reader_.next();
      return parse_input(at.text == "weight");
    }
    if (at.text == "output") {
      reader_.next();
      return parse_outputs();
    }
    return parse_stage();
  }

  Result<std::string> parse_tensor_name() {
    const Token at = reader_.peek();
    TW_TRY(const std::string name, reader_.expect_name("a name"));
    if (!is_valid_name(name))
      return parse_error(at,
                         fmt::format("'{}' is a word of the language: choose another name", name));
    if (tensors_.count(name)) return parse_error(at, fmt::format("'{}' is declared twice", name));
    TW_RETURN_IF_ERROR(reader_.expect(":"));
    return name;
  }

  Result<DType> parse_type() {
    const Token at = reader_.peek();
    TW_TRY(const std::string name, reader_.expect_name("a data type"));
    const auto type = parse_dtype(name);
    if (!type) return parse_error(at, type.error().message);
    return *type;
  }

  Result<int64_t> parse_extent() {
    const Token at = reader_.peek();
    if (reader_.is_symbol("-")) return parse_error(at, "an extent is 0 or more");
    if (at.kind != Token::Number)
      return parse_error(at, fmt::format("expected an extent, found {}", quoted(at)));
    reader_.next();
    const auto extent = parse_int(at.text);
    if (!extent)
      return parse_error(at, fmt::format("'{}' is no extent of at most 2^63 - 1", at.text));
    return *extent;
  }

  Result<std::string> parse_letters() {
    if (!reader_.accept("@")) return std::string();
    return reader_.expect_name("letters such as NCHW");
  }

  Status parse_input(bool constant) {
    Input input;
    input.constant = constant;
    TW_TRY(input.name, parse_tensor_name());
    TW_TRY(input.type, parse_type());
    TW_RETURN_IF_ERROR(reader_.expect("["));
    if (!reader_.accept("]")) {
      do {
        TW_TRY(const int64_t extent, parse_extent());
        input.shape.push_back(extent);
      } while (reader_.accept(","));
      TW_RETURN_IF_ERROR(reader_.expect("]"));
    }
    TW_TRY(input.letters, parse_letters());
    tensors_[input.name] = {input.type, input.shape.size()};
    compute_.inputs.push_back(std::move(input));
    return {};
  }

  Result<std::vector<Axis>> parse_axes(std::string_view open, std::string_view close) {
    TW_RETURN_IF_ERROR(reader_.expect(open));
    std::vector<Axis> axes;
    if (reader_.accept(close)) return axes;
    do {
      TW_TRY(std::string name, reader_.expect_name("an axis"));
      TW_RETURN_IF_ERROR(reader_.expect("="));
      TW_TRY(const int64_t extent, parse_extent());
      axes.emplace_back(std::move(name), extent);
    } while (reader_.accept(","));
    TW_RETURN_IF_ERROR(reader_.expect(close));
    return axes;
  }

  /// Parses `sum(k=32)` or `sum(k <= j)`, if the expression of the stage begins with a reduction or
  /// scan; otherwise reads nothing. max(j=8) is a reduction because of the '='. max(k <= j) is a
  /// scan because it has one operand. max(a, b) is a function.
  Status parse_reduction(Stage& stage) {
    const Token at = reader_.peek();
    const auto combine = find_combine(at.text);
    if (at.kind != Token::Name || !combine || !reader_.is_symbol("(", 1)) return {};
    const bool scans = starts_scan();
    if (!scans && !reader_.is_symbol("=", 3)) return {};
    reader_.next();
    stage.combine = *combine;
    if (scans) return parse_scan(stage);
    TW_TRY(stage.reduction, parse_axes("(", ")"));
    return {};
  }

  /// True if a scan begins here: `sum(k <= j)` or `sum(k < j)`.
  bool starts_scan() const {
    return reader_.peek(2).kind == Token::Name &&
           (reader_.is_symbol("<=", 3) || reader_.is_symbol("<", 3)) &&
           reader_.peek(4).kind == Token::Name && reader_.is_symbol(")", 5);
  }

  Status parse_scan(Stage& stage) {
    reader_.next();
    const std::string term = reader_.next().text;
    const bool inclusive = reader_.next().text == "<=";
    const Token at = reader_.next();
    reader_.next();
    std::vector<std::string> names;
    for (const Axis& axis : stage.axes) {
      names.push_back(axis.name);
      if (axis.name == at.text) stage.reduction = {Axis(term, axis.extent)};
    }
    if (stage.reduction.empty())
      return parse_error(at, fmt::format("'{}' is no axis of '{}', along which it could scan{}",
                                         at.text, stage.name, hint(at.text, names)));
    stage.scan = Scan{at.text, inclusive};
    return {};
  }

  Status parse_stage() {
    Stage stage;
    TW_TRY(stage.name, parse_tensor_name());
    TW_TRY(stage.type, parse_type());
    TW_TRY(stage.axes, parse_axes("[", "]"));
    TW_TRY(stage.letters, parse_letters());
    TW_RETURN_IF_ERROR(reader_.expect("="));
    const Token first = reader_.peek();
    const bool is_position = starts_position();
    if (is_position) {
      reader_.next();
      TW_TRY(stage.reduction, parse_axes("(", ")"));
    } else {
      TW_RETURN_IF_ERROR(parse_reduction(stage));
    }
    std::vector<std::string> variables;
    for (const auto* axes : {&stage.axes, &stage.reduction})
      for (const Axis& axis : *axes) variables.push_back(axis.name);
    const Token at = reader_.peek();
    TW_TRY(stage.body, ExprParser(reader_, tensors_, &variables, stage.name).parse());
    if (is_position) return add_position(first, stage);
    if (const auto literal = as_int(stage.body); literal && stage.body.type() == Int64) {
      if (!can_hold(stage.type, *literal))
        return parse_error(at,
                           fmt::format("{} does not fit into {}", *literal, to_string(stage.type)));
      stage.body = cast(stage.type, stage.body);
    }
    if (stage.body.type() != stage.type)
      return parse_error(at, fmt::format("the expression is {}, '{}' is {}: cast it, as in {}(...)",
                                         to_string(stage.body.type()), stage.name,
                                         to_string(stage.type), to_string(stage.type)));
    add(std::move(stage));
    return {};
  }

  void add(Stage stage) {
    tensors_[stage.name] = {stage.type, stage.axes.size()};
    compute_.stages.push_back(std::move(stage));
  }

  /// True if an argmax or argmin begins here: `argmax(j=10)`.
  bool starts_position() const {
    const std::string& text = reader_.peek().text;
    return (text == "argmax" || text == "argmin") && reader_.is_symbol("(", 1) &&
           reader_.is_symbol("=", 3);
  }

  /// Adds the stages of position_stages() for an argmax or argmin. `declared` is the stage as it is
  /// written: its body is the value, and its reduction is the axis of the argmax.
  Status add_position(const Token& at, const Stage& declared) {
    if (declared.reduction.size() != 1 || declared.reduction[0].extent == 0)
      return parse_error(at, fmt::format("'{}' runs over one axis with elements", at.text));
    if (declared.type != Int64)
      return parse_error(at, fmt::format("'{}' gives i64, '{}' is {}", at.text, declared.name,
                                         to_string(declared.type)));
    if (declared.body.type() == Bool)
      return parse_error(at, fmt::format("'{}' needs a number, not bool", at.text));
    const Position position{at.text == "argmax", declared.reduction[0], declared.body};
    for (Stage& stage : position_stages(declared.name, declared.axes, position, declared.letters)) {
      if (tensors_.count(stage.name))
        return parse_error(at, fmt::format("'{}' of '{}' needs a stage '{}', which is declared "
                                           "before: rename one",
                                           at.text, declared.name, stage.name));
      add(std::move(stage));
    }
    return {};
  }

  Status parse_outputs() {
    do {
      const Token at = reader_.peek();
      TW_TRY(std::string name, reader_.expect_name("the name of a stage"));
      if (compute_.find_input(name))
        return parse_error(at, fmt::format("'{}' is an input, and outputs are stages: declare a "
                                           "stage that copies it",
                                           name));
      if (!compute_.find_stage(name))
        return parse_error(
            at, fmt::format("'{}' is no stage declared before{}", name, hint(name, stage_names())));
      compute_.outputs.push_back(std::move(name));
    } while (reader_.accept(","));
    return {};
  }

  std::vector<std::string> stage_names() const {
    std::vector<std::string> names;
    for (const Stage& stage : compute_.stages) names.push_back(stage.name);
    return names;
  }

  TokenReader reader_;
  Signatures tensors_;
  Compute compute_;
  size_t declarations_ = 0;
};

// ---- printing -------------------------------------------------------------------------------

std::string print_axes(const std::vector<Axis>& axes) {
  std::vector<std::string> parts;
  for (const Axis& axis : axes) parts.push_back(fmt::format("{}={}", axis.name, axis.extent));
  return join(parts, ", ");
}

std::string print_letters(const std::string& letters) {
  return letters.empty() ? "" : " @" + letters;
}

std::string print(const Input& input) {
  return fmt::format("{} {}: {}[{}]{}", input.constant ? "weight" : "input", input.name,
                     to_string(input.type), fmt::join(input.shape, ", "),
                     print_letters(input.letters));
}

std::string print(const Stage& stage) {
  std::string reduction;
  if (stage.scan)
    reduction = fmt::format("{}({} {} {}) ", to_string(stage.combine), stage.reduction[0].name,
                            stage.scan->inclusive ? "<=" : "<", stage.scan->along);
  else if (stage.combine != Combine::None)
    reduction = fmt::format("{}({}) ", to_string(stage.combine), print_axes(stage.reduction));
  return fmt::format("{}: {}[{}]{} = {}{}", stage.name, to_string(stage.type),
                     print_axes(stage.axes), print_letters(stage.letters), reduction,
                     to_string(stage.body));
}

std::vector<std::string> declarations(const Compute& compute) {
  std::vector<std::string> lines;
  for (const Input& input : compute.inputs) lines.push_back(print(input));
  for (const Stage& stage : compute.stages) lines.push_back(print(stage));
  const bool is_default = compute.outputs.size() == 1 && !compute.stages.empty() &&
                          compute.outputs[0] == compute.stages.back().name;
  if (!is_default) lines.push_back("output " + join(compute.outputs, ", "));
  return lines;
}

}  // namespace

Result<Compute> parse_compute(std::string_view text) {
  TW_TRY(std::vector<Token> tokens, tokenize(text));
  return ComputeParser(std::move(tokens)).parse();
}

Result<Expr> parse_expr(std::string_view text, const std::map<std::string, DType>& tensors) {
  TW_TRY(std::vector<Token> tokens, tokenize(text));
  TokenReader reader(std::move(tokens));
  Signatures signatures;
  for (const auto& [name, type] : tensors) signatures[name] = {type, std::nullopt};
  TW_TRY(Expr parsed, ExprParser(reader, signatures, nullptr).parse());
  const Token& rest = reader.peek();
  if (rest.kind == Token::Symbol || rest.kind == Token::Name || rest.kind == Token::Number)
    return parse_error(rest,
                       fmt::format("expected the end of the expression, found {}", quoted(rest)));
  return parsed;
}

std::string to_text(const Compute& compute) { return join(declarations(compute), "\n") + "\n"; }

std::string to_line(const Compute& compute) { return join(declarations(compute), "; "); }

std::string hash(const Compute& compute) { return short_hash(to_line(compute)); }

}  // namespace tw::dsl
