// SPDX-License-Identifier: Apache-2.0
#include "dsl/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/hash.h"
#include "base/integer.h"
#include "base/pool_allocator.h"
#include "base/text.h"

namespace tw::dsl {
namespace {

size_t hash_of(const Const& c) {
  size_t h = mix(0, static_cast<size_t>(c.type));
  h = mix(h, std::hash<int64_t>()(c.int_value));
  return mix(h, std::hash<double>()(c.float_value));
}
size_t hash_of(const Var& v) { return mix(1, std::hash<std::string>()(v.name)); }
size_t hash_of(const Read& r) {
  size_t h = mix(2, std::hash<std::string>()(r.tensor));
  for (const Expr& index : r.indices) h = mix(h, index.hash());
  return h;
}
size_t hash_of(const Unary& u) { return mix(mix(3, static_cast<size_t>(u.op)), u.a.hash()); }
size_t hash_of(const Binary& b) {
  return mix(mix(mix(4, static_cast<size_t>(b.op)), b.a.hash()), b.b.hash());
}
size_t hash_of(const Select& s) {
  return mix(mix(mix(5, s.condition.hash()), s.a.hash()), s.b.hash());
}
size_t hash_of(const Cast& c) { return mix(mix(6, static_cast<size_t>(c.type)), c.a.hash()); }

int height(const Expr& e) { return e.node().height; }
int height_of_children(const Const&) { return 0; }
int height_of_children(const Var&) { return 0; }
int height_of_children(const Read& r) {
  int tallest = 0;
  for (const Expr& index : r.indices) tallest = std::max(tallest, height(index));
  return tallest;
}
int height_of_children(const Unary& u) { return height(u.a); }
int height_of_children(const Binary& b) { return std::max(height(b.a), height(b.b)); }
int height_of_children(const Select& s) {
  return std::max({height(s.condition), height(s.a), height(s.b)});
}
int height_of_children(const Cast& c) { return height(c.a); }

int64_t size(const Expr& e) { return e.node().size; }
int64_t size_of_children(const Const&) { return 0; }
int64_t size_of_children(const Var&) { return 0; }
int64_t size_of_children(const Read& r) {
  int64_t sum = 0;
  for (const Expr& index : r.indices) sum += size(index);
  return sum;
}
int64_t size_of_children(const Unary& u) { return size(u.a); }
int64_t size_of_children(const Binary& b) { return size(b.a) + size(b.b); }
int64_t size_of_children(const Select& s) { return size(s.condition) + size(s.a) + size(s.b); }
int64_t size_of_children(const Cast& c) { return size(c.a); }

uint64_t variables(const Expr& e) { return e.node().variables; }
uint64_t variables_of(const Const&) { return 0; }
uint64_t variables_of(const Var& v) { return variable_bit(v.name); }
uint64_t variables_of(const Read& r) {
  uint64_t all = 0;
  for (const Expr& index : r.indices) all |= variables(index);
  return all;
}
uint64_t variables_of(const Unary& u) { return variables(u.a); }
uint64_t variables_of(const Binary& b) { return variables(b.a) | variables(b.b); }
uint64_t variables_of(const Select& s) {
  return variables(s.condition) | variables(s.a) | variables(s.b);
}
uint64_t variables_of(const Cast& c) { return variables(c.a); }

template <typename T>
Expr make(T value, DType type) {
  const size_t hash = hash_of(value);
  const int height = 1 + height_of_children(value);
  const auto size =
      static_cast<int32_t>(std::min<int64_t>(1 + size_of_children(value), largest_count));
  const uint64_t variables = variables_of(value);
  return Expr(std::allocate_shared<const ExprNode>(PoolAllocator<ExprNode>(), std::move(value),
                                                   type, hash, height, size, variables));
}

bool is_comparison(BinaryOp op) {
  return op == BinaryOp::Lt || op == BinaryOp::Le || op == BinaryOp::Eq || op == BinaryOp::Ne;
}
bool is_logical(BinaryOp op) { return op == BinaryOp::And || op == BinaryOp::Or; }

std::optional<int64_t> checked_sub(int64_t a, int64_t b) {
  int64_t difference;
  if (__builtin_sub_overflow(a, b, &difference)) return std::nullopt;
  return difference;
}

std::optional<int64_t> fold_int(BinaryOp op, DType type, int64_t a, int64_t b) {
  if (is_bitwise(op)) return apply_bitwise(op, type, a, b);
  switch (op) {
    case BinaryOp::Add:
      return checked_add(a, b);
    case BinaryOp::Sub:
      return checked_sub(a, b);
    case BinaryOp::Mul:
      return checked_mul(a, b);
    // Only positive divisors are folded. floor_div() must not divide by 0, and must not divide the
    // least integer by -1.
    case BinaryOp::Div:
      return b <= 0 ? std::nullopt : std::optional(floor_div(a, b));
    case BinaryOp::Mod:
      return b <= 0 ? std::nullopt : std::optional(floor_mod(a, b));
    default:
      return order_result(op, a, b);
  }
}

// Simplifies operations with a neutral or absorbing element, such as x + 0 and x * 0. Only integers
// and booleans are simplified, because x * 0 is not 0 if x is a NaN. `x` and `y` are the values of
// `a` and `b` if they are literals.
std::optional<Expr> fold_neutral(BinaryOp op, const Expr& a, const Expr& b,
                                 std::optional<int64_t> x, std::optional<int64_t> y) {
  switch (op) {
    case BinaryOp::Add:
      if (x == 0) return b;
      if (y == 0) return a;
      break;
    case BinaryOp::Sub:
      if (y == 0) return a;
      if (equal(a, b)) return constant_int(a.type(), 0);
      break;
    case BinaryOp::Mul:
      if (x == 1) return b;
      if (y == 1) return a;
      if (x == 0) return a;
      if (y == 0) return b;
      break;
    case BinaryOp::Div:
      if (y == 1) return a;
      break;
    case BinaryOp::Mod:
      if (y == 1) return constant_int(a.type(), 0);
      break;
    case BinaryOp::Min:
    case BinaryOp::Max:
      if (equal(a, b)) return a;
      break;
    case BinaryOp::And:
      if (x) return *x ? b : a;
      if (y) return *y ? a : b;
      break;
    case BinaryOp::Or:
      if (x) return *x ? a : b;
      if (y) return *y ? b : a;
      break;
    case BinaryOp::Shl:
    case BinaryOp::Shr:
      if (x == 0 || y == 0) return a;
      break;
    case BinaryOp::BitAnd:
      if (x == 0 || equal(a, b)) return a;
      if (y == 0) return b;
      break;
    case BinaryOp::BitOr:
      if (x == 0 || equal(a, b)) return b;
      if (y == 0) return a;
      break;
    case BinaryOp::BitXor:
      if (x == 0) return b;
      if (y == 0) return a;
      if (equal(a, b)) return constant_int(a.type(), 0);
      break;
    default:
      break;
  }
  return std::nullopt;
}

/// Replaces a power by a few exact operations if they give the same, as NumPy does: pow(x, 2)
/// becomes x * x. A call of pow() is an approximation and takes ten times as long.
std::optional<Expr> fold_power(const Expr& a, const Expr& exponent) {
  const Const* literal = exponent.as<Const>();
  if (!literal) return std::nullopt;
  const double power = literal->float_value;
  const Expr one = constant(a.type(), 1);
  if (power == -1) return one / a;
  if (power == -0.5) return one / sqrt(a);
  if (power == 0.5) return sqrt(a);
  if (power == 1) return a;
  if (power == 2) return a * a;
  if (power == 3) return a * a * a;
  if (power == 4) return (a * a) * (a * a);
  return std::nullopt;
}

/// Turns shifts and masks of indices by literals into multiplications, divisions and remainders,
/// because the analyses of indices know these: x >> 2 becomes x / 4. Returns nullopt if the
/// operation has no such form.
std::optional<Expr> fold_bits_of_index(BinaryOp op, const Expr& a, const Expr& b,
                                       std::optional<int64_t> x, std::optional<int64_t> y) {
  constexpr int64_t most = 62;  // 2^62 is the largest power of two that an Int64 holds
  const auto power = [](int64_t exponent) { return Expr(int64_t{1} << exponent); };
  if (y && (op == BinaryOp::Shl || op == BinaryOp::Shr)) {
    const int64_t count = floor_mod(*y, 64);
    if (count > most) return std::nullopt;
    return binary(op == BinaryOp::Shl ? BinaryOp::Mul : BinaryOp::Div, a, power(count));
  }
  if (op != BinaryOp::BitAnd || (!x && !y)) return std::nullopt;
  const int64_t mask = x ? *x : *y;
  if (mask <= 0 || mask >= (int64_t{1} << most) || (mask & (mask + 1)) != 0) return std::nullopt;
  return binary(BinaryOp::Mod, x ? b : a, Expr(mask + 1));
}

/// Converts an operand that is an Int64 literal to the type of the other operand. Leaves operands
/// of other different types as they are; the caller reports them.
void unify(Expr& a, Expr& b) {
  if (a.type() == b.type()) return;
  const auto adapt = [](const Expr& literal, DType type) {
    const int64_t value = *as_int(literal);
    return is_float(type) ? constant(type, static_cast<double>(value)) : constant_int(type, value);
  };
  if (as_int(a) && a.type() == Int64) {
    a = adapt(a, b.type());
  } else if (as_int(b) && b.type() == Int64) {
    b = adapt(b, a.type());
  }
}

/// Ends the process because the operands have different types. The parser and the Python module
/// check types first, so only a bug in C++ code leads here.
[[noreturn]] void refuse_types(std::string_view operation, const Expr& a, const Expr& b) {
  check_failed("that operands have one type", __FILE__, __LINE__,
               fmt::format("in '{}' of {} and {}: cast() one of them", operation,
                           to_string(a.type()), to_string(b.type())));
}

std::string print(const Expr& expr, int parent_precedence);

std::string print_list(const std::vector<Expr>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) text += (i ? ", " : "") + print(items[i], 0);
  return text;
}

/// Prints the value with the fewest digits that parse back to it in its type: 0.1, and not
/// 0.10000000149011612, for an f32.
std::string print_float(DType type, double value) {
  for (int digits = 1; digits < 17 && std::isfinite(value); ++digits) {
    char buffer[64];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits);
    const std::string text(buffer, end.ptr);
    if (round_to(type, *parse_double(text)) == value) return text;
  }
  return format_double(value);
}

std::string print_const(const Const& c) {
  if (is_float(c.type)) {
    std::string text = print_float(c.type, c.float_value);
    const bool plain = text.find_first_of(".en") == std::string::npos;
    if (plain) text += ".0";
    if (c.type != Float32) text += std::string(to_string(c.type));
    return text;
  }
  if (c.type == Bool) return c.int_value ? "true" : "false";
  if (c.type == Int64) return std::to_string(c.int_value);
  return std::to_string(c.int_value) + std::string(to_string(c.type));
}

std::string print_binary(const Binary& b, int parent) {
  const int own = precedence(b.op);
  if (own == 0) return fmt::format("{}({}, {})", to_string(b.op), print(b.a, 0), print(b.b, 0));
  // A right operand of the same precedence needs parentheses: a - (b - c) differs from a - b - c.
  const std::string text =
      fmt::format("{} {} {}", print(b.a, own), to_string(b.op), print(b.b, own + 1));
  return own < parent ? "(" + text + ")" : text;
}

std::string print(const Expr& expr, int parent) {
  return dsl::visit(
      expr, [](const Const& c) { return print_const(c); }, [](const Var& v) { return v.name; },
      [](const Read& r) { return fmt::format("{}[{}]", r.tensor, print_list(r.indices)); },
      [](const Unary& u) { return fmt::format("{}({})", to_string(u.op), print(u.a, 0)); },
      [&](const Binary& b) { return print_binary(b, parent); },
      [](const Select& s) {
        return fmt::format("select({}, {}, {})", print(s.condition, 0), print(s.a, 0),
                           print(s.b, 0));
      },
      [](const Cast& c) { return fmt::format("{}({})", to_string(c.type), print(c.a, 0)); });
}

/// Applies `f` to each child and rebuilds the node with the results. Returns nullopt if no child
/// changed.
template <typename F>
std::optional<Expr> rebuild(const Expr& expr, const F& f) {
  return dsl::visit(
      expr, [](const Const&) -> std::optional<Expr> { return std::nullopt; },
      [](const Var&) -> std::optional<Expr> { return std::nullopt; },
      [&](const Read& r) -> std::optional<Expr> {
        std::vector<Expr> indices;
        bool changed = false;
        indices.reserve(r.indices.size());
        for (const Expr& index : r.indices) {
          indices.push_back(f(index));
          changed |= !indices.back().same_node(index);
        }
        if (!changed) return std::nullopt;
        return read(r.tensor, std::move(indices), r.type, r.source);
      },
      [&](const Unary& u) -> std::optional<Expr> {
        const Expr a = f(u.a);
        if (a.same_node(u.a)) return std::nullopt;
        return unary(u.op, a);
      },
      [&](const Binary& b) -> std::optional<Expr> {
        const Expr x = f(b.a), y = f(b.b);
        if (x.same_node(b.a) && y.same_node(b.b)) return std::nullopt;
        return binary(b.op, x, y);
      },
      [&](const Select& s) -> std::optional<Expr> {
        const Expr c = f(s.condition), x = f(s.a), y = f(s.b);
        if (c.same_node(s.condition) && x.same_node(s.a) && y.same_node(s.b)) return std::nullopt;
        return select(c, x, y);
      },
      [&](const Cast& c) -> std::optional<Expr> {
        const Expr a = f(c.a);
        if (a.same_node(c.a)) return std::nullopt;
        return cast(c.type, a);
      });
}

}  // namespace

Expr::Expr(int64_t value) : Expr(constant_int(Int64, value)) {}
Expr::Expr(double value) : Expr(constant(Float32, value)) {}

Expr var(const std::string& name) { return make(Var{name}, Int64); }

Expr constant(DType type, double value) {
  if (!is_float(type)) return constant_int(type, static_cast<int64_t>(value));
  return make(Const{type, round_to(type, value), 0}, type);
}

std::optional<Expr> named_constant(std::string_view name) {
  if (name == "true" || name == "false") return constant_int(Bool, name == "true");
  for (const DType type : all_dtypes) {
    if (!is_float(type)) continue;
    const std::string suffix = type == Float32 ? "" : std::string(to_string(type));
    if (name == "inf" + suffix) return constant(type, std::numeric_limits<double>::infinity());
    if (name == "nan" + suffix) return constant(type, std::numeric_limits<double>::quiet_NaN());
    if (name == "pi" + suffix) return constant(type, std::numbers::pi);
  }
  return std::nullopt;
}

namespace {

/// Most literals are extents, factors and truth values. Each thread keeps one node for each integer
/// in this range, and all expressions of the thread share it. If all threads shared the nodes, they
/// would contend for the reference counts.
constexpr int64_t least_shared = -16, most_shared = 1024;

std::vector<Expr> make_literals(DType type, int64_t least, int64_t most) {
  std::vector<Expr> literals;
  for (int64_t value = least; value <= most; ++value)
    literals.push_back(make(Const{type, 0, value}, type));
  return literals;
}

const Expr* shared_literal(DType type, int64_t value) {
  static thread_local const std::vector<Expr> integers =
      make_literals(Int64, least_shared, most_shared);
  static thread_local const std::vector<Expr> truths = make_literals(Bool, 0, 1);
  if (type == Int64 && value >= least_shared && value <= most_shared)
    return &integers[static_cast<size_t>(value - least_shared)];
  return type == Bool ? &truths[value != 0] : nullptr;
}

}  // namespace

Expr constant_int(DType type, int64_t value) {
  if (is_float(type)) return constant(type, static_cast<double>(value));
  if (const Expr* shared = shared_literal(type, value)) return *shared;
  return make(Const{type, 0, wrap_to(type, value)}, type);
}

Expr read(const std::string& tensor, std::vector<Expr> indices, DType type,
          std::shared_ptr<const TensorNode> source) {
  return make(Read{tensor, std::move(indices), type, std::move(source)}, type);
}

Expr unary(UnaryOp op, Expr a) {
  const DType type = op == UnaryOp::Not ? Bool : a.type();
  if (const auto value = as_int(a)) {
    if (op == UnaryOp::Neg)
      if (const auto negated = checked_sub(0, *value)) return constant_int(type, *negated);
    if (op == UnaryOp::Not) return constant_int(Bool, !*value);
  }
  return make(Unary{op, std::move(a)}, type);
}

Expr binary(BinaryOp op, Expr a, Expr b) {
  unify(a, b);
  if (a.type() != b.type()) refuse_types(to_string(op), a, b);
  const DType type = is_comparison(op) || is_logical(op) ? Bool : a.type();
  if (!is_float(a.type())) {
    const auto x = as_int(a), y = as_int(b);
    if (x && y)
      if (const auto folded = fold_int(op, type, *x, *y)) return constant_int(type, *folded);
    if (const auto folded = fold_neutral(op, a, b, x, y)) return *folded;
    if (type == Int64)
      if (const auto folded = fold_bits_of_index(op, a, b, x, y)) return *folded;
  }
  if (op == BinaryOp::Pow)
    if (const auto folded = fold_power(a, b)) return *folded;
  return make(Binary{op, std::move(a), std::move(b)}, type);
}

Expr select(Expr condition, Expr a, Expr b) {
  unify(a, b);
  if (a.type() != b.type()) refuse_types("select", a, b);
  TW_CHECK(condition.type() == Bool, "a condition is a truth value, such as i < 3");
  if (const auto value = as_int(condition)) return *value ? a : b;
  const DType type = a.type();
  return make(Select{std::move(condition), std::move(a), std::move(b)}, type);
}

Expr cast(DType type, Expr a) {
  if (a.type() == type) return a;
  if (const auto value = as_int(a))
    return is_float(type) ? constant(type, static_cast<double>(*value))
                          : constant_int(type, *value);
  return make(Cast{type, std::move(a)}, type);
}

Expr operator+(const Expr& a, const Expr& b) { return binary(BinaryOp::Add, a, b); }
Expr operator-(const Expr& a, const Expr& b) { return binary(BinaryOp::Sub, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return binary(BinaryOp::Mul, a, b); }
Expr operator/(const Expr& a, const Expr& b) { return binary(BinaryOp::Div, a, b); }
Expr operator%(const Expr& a, const Expr& b) { return binary(BinaryOp::Mod, a, b); }
Expr operator-(const Expr& a) { return unary(UnaryOp::Neg, a); }
Expr operator<(const Expr& a, const Expr& b) { return binary(BinaryOp::Lt, a, b); }
Expr operator<=(const Expr& a, const Expr& b) { return binary(BinaryOp::Le, a, b); }
Expr operator>(const Expr& a, const Expr& b) { return binary(BinaryOp::Lt, b, a); }
Expr operator>=(const Expr& a, const Expr& b) { return binary(BinaryOp::Le, b, a); }
Expr operator&&(const Expr& a, const Expr& b) { return binary(BinaryOp::And, a, b); }
Expr operator||(const Expr& a, const Expr& b) { return binary(BinaryOp::Or, a, b); }
Expr operator!(const Expr& a) { return unary(UnaryOp::Not, a); }
Expr operator<<(const Expr& a, const Expr& count) { return binary(BinaryOp::Shl, a, count); }
Expr operator>>(const Expr& a, const Expr& count) { return binary(BinaryOp::Shr, a, count); }
Expr operator&(const Expr& a, const Expr& b) { return binary(BinaryOp::BitAnd, a, b); }
Expr operator|(const Expr& a, const Expr& b) { return binary(BinaryOp::BitOr, a, b); }
Expr operator^(const Expr& a, const Expr& b) { return binary(BinaryOp::BitXor, a, b); }
Expr eq(const Expr& a, const Expr& b) { return binary(BinaryOp::Eq, a, b); }
Expr ne(const Expr& a, const Expr& b) { return binary(BinaryOp::Ne, a, b); }
Expr min(const Expr& a, const Expr& b) { return binary(BinaryOp::Min, a, b); }
Expr max(const Expr& a, const Expr& b) { return binary(BinaryOp::Max, a, b); }
Expr clamp(const Expr& a, const Expr& low, const Expr& high) { return max(min(a, high), low); }
Expr abs(const Expr& a) { return unary(UnaryOp::Abs, a); }
Expr exp(const Expr& a) { return unary(UnaryOp::Exp, a); }
Expr log(const Expr& a) { return unary(UnaryOp::Log, a); }
Expr sqrt(const Expr& a) { return unary(UnaryOp::Sqrt, a); }
Expr tanh(const Expr& a) { return unary(UnaryOp::Tanh, a); }
Expr erf(const Expr& a) { return unary(UnaryOp::Erf, a); }
Expr floor(const Expr& a) { return unary(UnaryOp::Floor, a); }
Expr sin(const Expr& a) { return unary(UnaryOp::Sin, a); }
Expr cos(const Expr& a) { return unary(UnaryOp::Cos, a); }
Expr sigmoid(const Expr& a) { return unary(UnaryOp::Sigmoid, a); }
Expr round(const Expr& a) { return unary(UnaryOp::Round, a); }
Expr pow(const Expr& a, const Expr& exponent) { return binary(BinaryOp::Pow, a, exponent); }

Expr number_beside(DType type, int64_t value) { return constant_int(type, value); }
Expr number_beside(DType type, uint64_t value) {
  if (is_float(type)) return constant(type, static_cast<double>(value));
  return constant_int(type, static_cast<int64_t>(value));
}
Expr number_beside(DType type, double value) {
  return constant(is_float(type) ? type : Float32, value);
}

bool equal_nodes(const Expr& a, const Expr& b) {
  if (a.type() != b.type()) return false;
  if (a.node().value.index() != b.node().value.index()) return false;
  return dsl::visit(
      a,
      [&](const Const& x) {
        const Const& y = *b.as<Const>();
        return x.int_value == y.int_value &&
               (x.float_value == y.float_value ||
                (std::isnan(x.float_value) && std::isnan(y.float_value))) &&
               std::signbit(x.float_value) == std::signbit(y.float_value);
      },
      [&](const Var& x) { return x.name == b.as<Var>()->name; },
      [&](const Read& x) {
        const Read& y = *b.as<Read>();
        return x.tensor == y.tensor && std::equal(x.indices.begin(), x.indices.end(),
                                                  y.indices.begin(), y.indices.end(), equal);
      },
      [&](const Unary& x) {
        const Unary& y = *b.as<Unary>();
        return x.op == y.op && equal(x.a, y.a);
      },
      [&](const Binary& x) {
        const Binary& y = *b.as<Binary>();
        return x.op == y.op && equal(x.a, y.a) && equal(x.b, y.b);
      },
      [&](const Select& x) {
        const Select& y = *b.as<Select>();
        return equal(x.condition, y.condition) && equal(x.a, y.a) && equal(x.b, y.b);
      },
      [&](const Cast& x) { return equal(x.a, b.as<Cast>()->a); });
}

bool is_zero_bytes(const Expr& expr) {
  const Const* c = expr.as<Const>();
  if (!c) return false;
  return is_float(c->type) ? c->float_value == 0 && !std::signbit(c->float_value)
                           : c->int_value == 0;
}

std::string to_string(const Expr& expr) { return print(expr, 0); }

namespace {

/// Replaces variables. `find(name)` returns the replacement of a variable, or null to keep the
/// variable. `bits` is the bitwise or of variable_bit() of all variables that have a replacement;
/// subtrees without such a bit are not visited.
template <typename Find>
Expr substitute_found(const Expr& expr, uint64_t bits, const Find& find) {
  if ((expr.node().variables & bits) == 0) return expr;
  if (const Var* v = expr.as<Var>()) {
    const Expr* replacement = find(v->name);
    return replacement ? *replacement : expr;
  }
  auto rebuilt =
      rebuild(expr, [&](const Expr& child) { return substitute_found(child, bits, find); });
  return rebuilt ? std::move(*rebuilt) : expr;
}

}  // namespace

Expr substitute(const Expr& expr, const Substitution& replacements) {
  uint64_t bits = 0;
  for (const auto& [name, replacement] : replacements) bits |= variable_bit(name);
  return substitute_found(expr, bits, [&](const std::string& name) {
    const auto found = replacements.find(name);
    return found == replacements.end() ? nullptr : &found->second;
  });
}

Expr substitute(const Expr& expr, const std::string& variable, const Expr& replacement) {
  return substitute_found(expr, variable_bit(variable), [&](const std::string& name) {
    return name == variable ? &replacement : nullptr;
  });
}
std::vector<Expr> substitute(const std::vector<Expr>& exprs, const Substitution& replacements) {
  std::vector<Expr> result;
  result.reserve(exprs.size());
  for (const Expr& expr : exprs) result.push_back(substitute(expr, replacements));
  return result;
}

Expr transform(const Expr& expr, const std::function<std::optional<Expr>(const Expr&)>& rewrite) {
  const auto rebuilt = rebuild(expr, [&](const Expr& child) { return transform(child, rewrite); });
  const Expr& current = rebuilt ? *rebuilt : expr;
  const auto replaced = rewrite(current);
  return replaced ? *replaced : current;
}

namespace {

bool uses_var(const Expr& expr, const std::string& name, uint64_t bit) {
  if ((expr.node().variables & bit) == 0) return false;
  const auto uses = [&](const Expr& child) { return uses_var(child, name, bit); };
  return dsl::visit(
      expr, [](const Const&) { return false; }, [&](const Var& v) { return v.name == name; },
      [&](const Read& r) { return std::any_of(r.indices.begin(), r.indices.end(), uses); },
      [&](const Unary& u) { return uses(u.a); },
      [&](const Binary& b) { return uses(b.a) || uses(b.b); },
      [&](const Select& s) { return uses(s.condition) || uses(s.a) || uses(s.b); },
      [&](const Cast& c) { return uses(c.a); });
}

}  // namespace

bool uses_var(const Expr& expr, const std::string& name) {
  return uses_var(expr, name, variable_bit(name));
}

bool uses_var(const std::vector<Expr>& exprs, const std::string& name) {
  const uint64_t bit = variable_bit(name);
  return std::ranges::any_of(exprs, [&](const Expr& expr) { return uses_var(expr, name, bit); });
}

bool reads_tensors(const Expr& expr) {
  bool reads = false;
  for_each(expr, [&](const Expr& e) { reads = reads || e.as<Read>(); });
  return reads;
}

uint64_t variable_bit(const std::string& name) {
  return uint64_t{1} << (std::hash<std::string>()(name) % 64);
}

int64_t apply_bitwise(BinaryOp op, DType type, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::BitAnd:
      return a & b;
    case BinaryOp::BitOr:
      return a | b;
    case BinaryOp::BitXor:
      return a ^ b;
    default:
      break;
  }
  const int64_t count = floor_mod(b, 8 * size_bytes(type));
  if (op == BinaryOp::Shr) return a >> count;
  return wrap_to(type, static_cast<int64_t>(static_cast<uint64_t>(a) << count));
}

std::string_view to_string(UnaryOp op) {
  constexpr std::string_view names[] = {
#define X(name, text) text,
      TW_UNARY_OPS(X)
#undef X
  };
  return names[static_cast<int>(op)];
}

std::string_view to_string(BinaryOp op) {
  constexpr std::string_view names[] = {
#define X(name, text, precedence) text,
      TW_BINARY_OPS(X)
#undef X
  };
  return names[static_cast<int>(op)];
}

int precedence(BinaryOp op) {
  constexpr int levels[] = {
#define X(name, text, precedence) precedence,
      TW_BINARY_OPS(X)
#undef X
  };
  return levels[static_cast<int>(op)];
}

std::optional<std::string> type_error(UnaryOp op, DType type) {
  const auto needs = [&](bool holds, std::string_view what) -> std::optional<std::string> {
    if (holds) return std::nullopt;
    return fmt::format("'{}' needs {}, not {}", to_string(op), what, to_string(type));
  };
  switch (op) {
    case UnaryOp::Neg:
    case UnaryOp::Abs:
      return needs(type != Bool, "a number");
    case UnaryOp::Not:
      return needs(type == Bool, "a bool");
    default:
      return needs(is_float(type), "a float");
  }
}

std::optional<std::string> type_error(BinaryOp op, DType type) {
  const auto needs = [&](bool holds, std::string_view what) -> std::optional<std::string> {
    if (holds) return std::nullopt;
    return fmt::format("'{}' needs {}, not {}", to_string(op), what, to_string(type));
  };
  switch (op) {
    case BinaryOp::Eq:
    case BinaryOp::Ne:
      return std::nullopt;
    case BinaryOp::And:
    case BinaryOp::Or:
      return needs(type == Bool, "bools");
    case BinaryOp::Mod:
    case BinaryOp::Shl:
    case BinaryOp::Shr:
    case BinaryOp::BitAnd:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor:
      return needs(type != Bool && !is_float(type), "integers");
    case BinaryOp::Pow:
      return needs(is_float(type), "floats");
    default:
      return needs(type != Bool, "numbers");
  }
}

}  // namespace tw::dsl
