// SPDX-License-Identifier: Apache-2.0
#include "codegen/c_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/integer.h"
#include "codegen/abi.h"

namespace tw::codegen {

using dsl::BinaryOp;
using dsl::UnaryOp;
using schedules::Allocate;
using schedules::Assign;
using schedules::Barrier;
using schedules::Branches;
using schedules::Combine;
using schedules::Commit;
using schedules::If;
using schedules::Loop;
using schedules::PrefetchLines;
using schedules::Stmt;
using schedules::Wait;

namespace {

// Precedence levels of C's operators, loosest first.
constexpr int conditional_level = 1, or_level = 2, and_level = 3, compare_level = 4, add_level = 5,
              mul_level = 6, unary_level = 7, atom_level = 8;

bool reads_memory(const schedules::Expr& expr) {
  bool found = false;
  dsl::for_each(expr, [&](const schedules::Expr& e) { found |= e.as<dsl::Read>() != nullptr; });
  return found;
}

template <typename Text>
std::string at_level(const Text& t, int level) {
  return t.level < level ? fmt::format("({})", t.text) : t.text;
}

}  // namespace

bool is_read(const std::string& buffer, const schedules::Block& body) {
  bool found = false;
  schedules::for_each(body, [&](const Stmt& stmt) {
    if (!stmt.as<Assign>()) return;
    schedules::for_each_expression(stmt, [&](const schedules::Expr& expr) {
      dsl::for_each(expr, [&](const schedules::Expr& e) {
        if (const auto* r = e.as<dsl::Read>()) found |= r->tensor == buffer;
      });
    });
  });
  return found;
}

std::string_view storage_type(DType type, const CSpelling& spelling) {
  if (type == Float32) return "float";
  if (type == Float64) return "double";
  const bool has_sign = is_signed(type) && !is_float(type);
  switch (size_bytes(type)) {
    case 1:
      return has_sign ? spelling.int8 : spelling.uint8;
    case 2:
      return has_sign ? spelling.int16 : spelling.uint16;
    case 4:
      return has_sign ? spelling.int32 : spelling.uint32;
    case 8:
      return has_sign ? spelling.int64 : spelling.uint64;
  }
  TW_CHECK(false);
}

CPrinter::CPrinter(const schedules::Program& program, const schedules::Phase& phase,
                   const CSpelling& spelling)
    : program_(program), phase_(phase), spelling_(spelling) {
  for (const auto& argument : program.arguments) buffers_[argument.buffer.name] = &argument.buffer;
  for (const Buffer& scratch : program.scratch) buffers_[scratch.name] = &scratch;
  for (const auto& axis : phase.axes) ranges_.set(axis.variable, 0, axis.extent);
  choose_index_type();
}

// Chooses 32 bits only if every index, bound and comparison of the phase is proved to fit.
void CPrinter::choose_index_type() {
  bool fits = true;
  const auto check = [&](const Expr& e) {
    dsl::for_each(e, [&](const Expr& part) {
      if (part.type() == Int64 && !ranges_.of(part).fits_int32() && !part.as<dsl::Read>())
        fits = false;
      if (const auto* r = part.as<dsl::Read>())
        fits &= ranges_.of(linear_index(buffer(r->tensor), r->indices)).fits_int32();
    });
  };
  schedules::for_each(*phase_.body, [&](const Stmt& stmt) {
    schedules::for_each_expression(stmt, check);
    schedules::visit(
        stmt, [&](const Loop& loop) { ranges_.set(loop.variable, loop.begin, loop.end); },
        [&](const Allocate& allocate) { buffers_[allocate.buffer.name] = &allocate.buffer; },
        [&](const Assign& assign) {
          fits &= ranges_.of(linear_index(buffer(assign.buffer), assign.indices)).fits_int32();
        },
        ignore<If, Barrier, Commit, Wait, PrefetchLines>);
  });
  index_type_ = fits ? spelling_.int32 : spelling_.int64;
}

// ---- names ----------------------------------------------------------------------------------

const schedules::Buffer& CPrinter::buffer(const std::string& name) const {
  const auto found = buffers_.find(name);
  TW_CHECK(found != buffers_.end(), "a program accesses declared buffers only");
  return *found->second;
}

const std::string& CPrinter::identifier(const std::string& name) {
  const auto [at, is_new] = identifiers_.emplace(name, "");
  if (!is_new) return at->second;
  std::string id;
  for (const char c : name) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (id.empty() || std::isdigit(static_cast<unsigned char>(id[0]))) id = "v" + id;
  while (spelling_.is_reserved(id) || used_.contains(id)) id += "_";
  used_.insert(id);
  return at->second = id;
}

const std::string& CPrinter::buffer_identifier(const std::string& name) {
  touched_.insert(name);
  return identifier(name);
}

// ---- statements -----------------------------------------------------------------------------

void CPrinter::line(int indent, const std::string& text) {
  body_ += std::string(static_cast<size_t>(indent) * 2, ' ') + text + "\n";
}

void CPrinter::print(const Block& block, int indent) {
  for (size_t i = 0; i < block.size(); ++i) print(block[i], i + 1 == block.size(), indent);
}

void CPrinter::print(const Stmt& stmt, bool is_last, int indent) {
  if (const auto branches = schedules::branches_of(stmt)) return print_branches(*branches, indent);
  schedules::visit(
      stmt, [&](const Loop& loop) { print_loop(loop, indent); },
      [&](const If& branch) { print_if(branch, indent); },
      [&](const Assign& assign) { print_assign(assign, indent); },
      [&](const Allocate& allocate) { print_allocate(allocate, is_last, indent); },
      [&](const PrefetchLines& prefetch) { print_prefetch(prefetch, indent); },
      ignore<Barrier, Commit, Wait>);  // a single thread needs no ordering
}

void CPrinter::print_if(const If& branch, int indent) {
  line(indent, fmt::format("if ({}) {{", value(branch.condition)));
  print_body(*branch.body, indent + 1);
  line(indent, "}");
}

void CPrinter::print_branches(const Branches& branches, int indent) {
  line(indent, fmt::format("if ({}) {{", value(branches.taken.condition)));
  print(*branches.taken.body, indent + 1);
  line(indent, "} else {");
  print(*branches.otherwise.body, indent + 1);
  line(indent, "}");
}

std::string CPrinter::for_head(const Loop& loop, int64_t step) {
  const std::string& v = identifier(loop.variable);
  const std::string begin = value(loop.begin), end = at_level(print(loop.end), add_level);
  return fmt::format("for ({0} {1} = {2}; {1} < {3}; {4})", index_type_, v, begin, end,
                     step == 1 ? "++" + v : fmt::format("{} += {}", v, step));
}

std::vector<std::string> CPrinter::numbered_by(const std::string& number,
                                               const std::vector<schedules::TaskAxis>& variables) {
  std::vector<std::string> lines;
  int64_t stride = 1;
  for (size_t i = variables.size(); i > 0; --i) {
    const auto& [variable, extent] = variables[i - 1];
    const std::string quotient = stride == 1 ? number : fmt::format("{} / {}", number, stride);
    const std::string value = i == 1 ? quotient : fmt::format("{} % {}", quotient, extent);
    if (used_variables_.contains(variable))
      lines.insert(lines.begin(),
                   fmt::format("const {} {} = {};", index_type_, identifier(variable), value));
    stride *= extent;
  }
  return lines;
}

void CPrinter::print_assign(const Assign& assign, int indent) {
  const Buffer& b = buffer(assign.buffer);
  const std::string target = element(b, assign.indices);
  const bool plain_float = b.type == Float32 || b.type == Float64;
  if (plain_float && (assign.combine == Combine::Sum || assign.combine == Combine::Prod)) {
    line(indent, fmt::format("{} {}= {};", target, assign.combine == Combine::Sum ? "+" : "*",
                             value(assign.value)));
    return;
  }
  const Text old = loaded(b.type, target);
  Text result = print(assign.value);
  switch (assign.combine) {
    case Combine::None:
      if (is_narrow_float(b.type)) result.text = before_rounding(b.type, assign.value);
      break;
    case Combine::Sum:
      result = arithmetic(BinaryOp::Add, b.type, old, result, true);
      break;
    case Combine::Prod:
      result = arithmetic(BinaryOp::Mul, b.type, old, result, true);
      break;
    case Combine::Min:
      result = min_max(BinaryOp::Min, b.type, old, result);
      break;
    case Combine::Max:
      result = min_max(BinaryOp::Max, b.type, old, result);
      break;
  }
  line(indent, fmt::format("{} = {};", target, stored(b.type, result)));
}

std::string CPrinter::element(const Buffer& b, const std::vector<Expr>& indices) {
  const auto found = dropped_.find(b.name);
  Buffer held = b;
  held.extents.clear();
  std::vector<Expr> kept;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (found != dropped_.end() && std::ranges::count(found->second, i) > 0) continue;
    held.extents.push_back(b.extents[i]);
    kept.push_back(indices[i]);
  }
  return fmt::format("{}[{}]", buffer_identifier(b.name),
                     placed(b, print(linear_index(held, kept)).text));
}

// ---- expressions ----------------------------------------------------------------------------

CPrinter::Text CPrinter::loaded(DType type, const std::string& element) {
  if (is_narrow_float(type))
    return {fmt::format("tw_from_{}({})", tw::to_string(type), element), atom_level};
  if (type == Bool) return {element + " != 0", compare_level};
  return {element, atom_level};
}

std::string CPrinter::stored(DType type, const Text& value) {
  if (is_narrow_float(type)) return fmt::format("tw_to_{}({})", tw::to_string(type), value.text);
  return value.text;
}

std::string CPrinter::before_rounding(DType type, const Expr& value) {
  const auto* cast = value.as<dsl::Cast>();
  return cast && cast->type == type ? as_float(cast->a).text : print(value).text;
}

/// Prints an expression as a float, the type in which 16-bit floats are computed. If it is a double
/// or an integer, the float is chosen so that it rounds to the same 16-bit number as the exact
/// value.
CPrinter::Text CPrinter::as_float(const Expr& expr) {
  const Text text = print(expr);
  if (expr.type() == Float64) return {fmt::format("tw_to_odd({})", text.text), atom_level};
  if (is_float(expr.type())) return text;
  if (!ranges_.of(expr).fits_f32())
    return {fmt::format("tw_whole_to_odd({})", text.text), atom_level};
  return {"(float)" + at_level(text, unary_level), unary_level};
}

std::string CPrinter::narrowed(DType type, const std::string& value) {
  return fmt::format("tw_from_{0}(tw_to_{0}({1}))", tw::to_string(type), value);
}

std::string CPrinter::int64_literal(int64_t value) const {
  if (value == std::numeric_limits<int64_t>::min()) return std::string(spelling_.int64_min);
  if (value == static_cast<int32_t>(value)) return std::to_string(value);
  return fmt::format("{}{}{}", spelling_.before_int64, value, spelling_.after_int64);
}

CPrinter::Text CPrinter::literal(const dsl::Const& c) const {
  std::string text;
  if (!is_float(c.type)) {
    const bool is_least = c.type == Int32 && c.int_value == std::numeric_limits<int32_t>::min();
    text = is_least ? std::string(spelling_.int32_min) : int64_literal(c.int_value);
  } else if (std::isnan(c.float_value)) {
    text = spelling_.nan;
  } else if (std::isinf(c.float_value)) {
    text = fmt::format("{}{}", c.float_value < 0 ? "-" : "", spelling_.infinity);
  } else {
    // Prints the shortest text that reads back as the same number.
    const bool is_double = c.type == Float64;
    text = is_double ? fmt::format("{}", c.float_value)
                     : fmt::format("{}", static_cast<float>(c.float_value));
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (!is_double) text += "f";
  }
  return {text, text[0] == '-' ? unary_level : atom_level};
}

CPrinter::Text CPrinter::print(const Expr& expr) {
  for (const auto& [held, name] : held_)
    if (dsl::equal(held, expr)) return {name, atom_level};
  return dsl::visit(
      expr, [&](const dsl::Const& c) { return literal(c); },
      [&](const dsl::Var& v) -> Text {
        used_variables_.insert(v.name);
        return {identifier(v.name), atom_level};
      },
      [&](const dsl::Read& r) {
        const Buffer& b = buffer(r.tensor);
        return loaded(b.type, element(b, r.indices));
      },
      [&](const dsl::Unary& u) { return print(u); }, [&](const dsl::Binary& b) { return print(b); },
      [&](const dsl::Cast& c) { return print(c); }, [&](const dsl::Select& s) { return print(s); });
}

CPrinter::Text CPrinter::print(const dsl::Select& s) {
  return {fmt::format("{} ? {} : {}", at_level(print(s.condition), or_level),
                      at_level(print(s.a), or_level), at_level(print(s.b), conditional_level)),
          conditional_level};
}

CPrinter::Text CPrinter::float_call(std::string_view name, DType type,
                                    const std::string& arguments) const {
  return {fmt::format("{}{}({})", name, type == Float64 ? "" : spelling_.float_suffix, arguments),
          atom_level};
}

CPrinter::Text CPrinter::print(const dsl::Unary& u) {
  const Text a = print(u.a);
  const DType type = u.a.type();
  switch (u.op) {
    case UnaryOp::Neg:
      if (is_float(type)) return {fmt::format("-{}", at_level(a, atom_level)), unary_level};
      return arithmetic(BinaryOp::Sub, type, {"0", atom_level}, a, reads_memory(u.a));
    case UnaryOp::Not:
      return {fmt::format("!{}", at_level(a, atom_level)), unary_level};
    case UnaryOp::Abs:
      return is_float(type) ? float_call("fabs", type, a.text)
                            : integer_call("tw_abs", type, a.text);
    case UnaryOp::Exp:
      return float_call("exp", type, a.text);
    case UnaryOp::Log:
      return float_call("log", type, a.text);
    case UnaryOp::Sqrt:
      return float_call("sqrt", type, a.text);
    case UnaryOp::Tanh:
      return float_call("tanh", type, a.text);
    case UnaryOp::Erf:
      return float_call("erf", type, a.text);
    case UnaryOp::Floor:
      return float_call("floor", type, a.text);
    case UnaryOp::Sin:
      return float_call("sin", type, a.text);
    case UnaryOp::Cos:
      return float_call("cos", type, a.text);
    case UnaryOp::Sigmoid:
      return {fmt::format("{0} / ({0} + {1})", type == Float64 ? "1.0" : "1.0f",
                          float_call("exp", type, "-" + at_level(a, atom_level)).text),
              mul_level};
    case UnaryOp::Round:
      return float_call("rint", type, is_narrow_float(type) ? narrowed(type, a.text) : a.text);
  }
  TW_CHECK(false);
}

CPrinter::Text CPrinter::print(const dsl::Binary& b) {
  const DType type = b.a.type();
  const Text x = print(b.a), y = print(b.b);
  const auto infix = [&](std::string_view op, int level) -> Text {
    return {fmt::format("{} {} {}", at_level(x, level), op, at_level(y, level + 1)), level};
  };
  switch (b.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
      return arithmetic(b.op, type, x, y, reads_memory(b.a) || reads_memory(b.b));
    case BinaryOp::Div:
    case BinaryOp::Mod:
      return division(b, x, y);
    case BinaryOp::Min:
    case BinaryOp::Max:
      return min_max(b.op, operand_type(b), x, y);
    case BinaryOp::Lt:
      return infix("<", compare_level);
    case BinaryOp::Le:
      return infix("<=", compare_level);
    // An && in a ||, or a || in an &&, gets parentheses, as compilers advise.
    case BinaryOp::And:
      return infix("&&", and_level);
    case BinaryOp::Or:
      return {fmt::format("{} || {}", at_level(x, compare_level), at_level(y, compare_level)),
              or_level};
    case BinaryOp::Eq:
    case BinaryOp::Ne:
      return {fmt::format("{} {} {}", at_level(x, add_level),
                          b.op == BinaryOp::Eq ? "==" : "!=", at_level(y, add_level)),
              compare_level};
    case BinaryOp::Pow:
      return float_call("pow", type, x.text + ", " + y.text);
    case BinaryOp::Shl:
    case BinaryOp::Shr:
      return shift(b, x, y);
    // This low level gives them parentheses wherever they are operands, as compilers advise.
    case BinaryOp::BitAnd:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor:
      return {fmt::format("{} {} {}", at_level(x, unary_level), dsl::to_string(b.op),
                          at_level(y, unary_level)),
              conditional_level};
  }
  TW_CHECK(false);
}

/// C does not define shifts by the number of bits or more, nor left shifts of negative numbers. So
/// the count is reduced modulo the number of bits, and left shifts are computed in an unsigned
/// type. An Int64 operand that may have 32 bits in the text is converted to 64 bits.
CPrinter::Text CPrinter::shift(const dsl::Binary& b, const Text& x, const Text& y) const {
  const DType type = b.a.type();
  const int64_t bits = 8 * size_bytes(type);
  const auto literal = dsl::as_int(b.b);
  const std::string count = literal ? std::to_string(floor_mod(*literal, bits))
                                    : fmt::format("({} & {})", at_level(y, unary_level), bits - 1);
  if (b.op == BinaryOp::Shr)
    return {
        fmt::format("{}{} >> {}", may_have_32_bits(b.a) ? fmt::format("({})", spelling_.int64) : "",
                    at_level(x, unary_level), count),
        conditional_level};
  const std::string_view modular = type == Int64 ? spelling_.uint64 : spelling_.uint32;
  return {fmt::format("({})(({}){} << {})", storage_type(type), modular, at_level(x, unary_level),
                      count),
          unary_level};
}

/// Prints a sum, difference or product. In C the result may overflow for 32-bit integers, for
/// products of u16, and for 64-bit integers other than plain indices (`is_value`). Such operands
/// are computed as unsigned integers, so that they wrap, and the result is converted back.
CPrinter::Text CPrinter::arithmetic(BinaryOp op, DType type, const Text& x, const Text& y,
                                    bool is_value) const {
  const int level = op == BinaryOp::Mul ? mul_level : add_level;
  const auto plain = [&]() -> Text {
    return {fmt::format("{} {} {}", at_level(x, level), dsl::to_string(op), at_level(y, level + 1)),
            level};
  };
  if (type == Int32 || type == UInt32 || type == UInt16 || (type == Int64 && is_value))
    return {fmt::format("({0})(({1}){2} {3} ({1}){4})", storage_type(type),
                        type == Int64 ? spelling_.uint64 : spelling_.uint32,
                        at_level(x, unary_level), dsl::to_string(op), at_level(y, unary_level)),
            unary_level};
  if (is_float(type) || type == Int64) return plain();
  return narrowed(type, plain());
}

CPrinter::Text CPrinter::narrowed(DType type, const Text& value) const {
  if (type == Int64) return value;
  return {fmt::format("({}){}", storage_type(type), at_level(value, unary_level)), unary_level};
}

/// In a phase with 32-bit indices, all Int64 values fit 32 bits, except perhaps values that are
/// read.
bool CPrinter::may_have_32_bits(const Expr& expr) const {
  return expr.type() == Int64 && index_type_ == spelling_.int32 && ranges_.of(expr).fits_int32();
}

DType CPrinter::operand_type(const dsl::Binary& b) const {
  return may_have_32_bits(b.a) && may_have_32_bits(b.b) ? Int32 : b.a.type();
}

CPrinter::Text CPrinter::integer_call(std::string_view name, DType type,
                                      const std::string& arguments) const {
  const Text call{fmt::format("{}({})", name, arguments), atom_level};
  if (!spelling_.has_narrow_functions) return narrowed(type, call);
  const Text wide{fmt::format("{}_i64({})", name, arguments), atom_level};
  if (type == Int64) return wide;
  if (type == UInt32) return narrowed(type, wide);
  return type == Int32 ? call : narrowed(type, call);
}

CPrinter::Text CPrinter::division(const dsl::Binary& b, const Text& x, const Text& y) const {
  const bool is_div = b.op == BinaryOp::Div;
  const Text plain = {fmt::format("{} {} {}", at_level(x, mul_level), is_div ? "/" : "%",
                                  at_level(y, mul_level + 1)),
                      mul_level};
  const DType type = b.a.type();
  const std::string arguments = x.text + ", " + y.text;
  if (is_float(type)) return plain;
  if (dsl::as_int(b.b).value_or(0) <= 0)
    return integer_call(is_div ? "tw_div" : "tw_mod", operand_type(b), arguments);
  if (!is_signed(type) || ranges_.of(b.a).low >= 0) return plain;
  return integer_call(is_div ? "tw_floor_div" : "tw_floor_mod", operand_type(b), arguments);
}

CPrinter::Text CPrinter::min_max(BinaryOp op, DType type, const Text& x, const Text& y) const {
  const bool is_min = op == BinaryOp::Min;
  const std::string arguments = x.text + ", " + y.text;
  if (is_float(type)) return float_call(is_min ? "fmin" : "fmax", type, arguments);
  return integer_call(is_min ? "tw_min" : "tw_max", type, arguments);
}

CPrinter::Text CPrinter::print(const dsl::Cast& c) {
  if (is_narrow_float(c.type)) return {narrowed(c.type, as_float(c.a).text), atom_level};
  const Text a = print(c.a);
  const DType from = c.a.type();
  if (is_narrow_float(from) && c.type == Float32) return a;
  if (is_float(from) && !is_float(c.type))
    return {fmt::format("tw_to_{}({})", tw::to_string(c.type), a.text), atom_level};
  if (c.type == Bool) return {at_level(a, add_level) + " != 0", compare_level};
  return {fmt::format("({}){}", storage_type(c.type), at_level(a, unary_level)), unary_level};
}

}  // namespace tw::codegen
