// SPDX-License-Identifier: Apache-2.0
#pragma once
// Expressions: immutable trees. Definitions of tensors, bounds of loops, and statements of
// generated programs consist of them.
//
// An Expr is a value: cheap to copy, never null once built, compared and hashed by structure, safe
// to share between threads. Index arithmetic has type Int64. Division and modulo of integers round
// towards minus infinity on every target: `-1 / 2` is -1, and `-1 % 4` is 3. If the divisor is 0,
// quotient and remainder are 0. Shifts and bitwise operations are defined for integers only, and
// treat them as two's complement. `>>` of a negative number keeps the sign. Shift counts are
// reduced modulo the number of bits of the type, so `x << 33` of an i32 is `x << 1` and `x >> -1`
// is `x >> 31`.
//
// Both operands of an operation must have the same type; cast() converts. A C++ number may be
// either operand of an operator, and an operand of eq(), ne(), min(), max(), pow(), clamp() and
// select(). It becomes a literal of this type:
//
//   number        beside an expression             alone, as in compute("c", {m}, 0.5)
//   2, 2u, 'a'    takes the expression's type      i64
//   0.5f, 0.5     takes a float expression's type  f32
//
// An integer that does not fit the type wraps, as in a C++ conversion. 0.1 beside an f64 is exactly
// the double 0.1; beside an f16 the double is rounded once. A floating-point number beside an
// integer expression is a bug of the caller and ends the process, and so are two operands of
// different types; use cast().
//
//   Expr x = var("x");
//   Expr e = select(x >= 1 && x < 8, a(x - 1), 0);
//   to_string(e);           // "select(1 <= x && x < 8, a[x - 1], 0.0)"
//   to_string(1.0f - e);    // "1.0 - select(1 <= x && x < 8, a[x - 1], 0.0)"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/visit.h"

namespace tw::dsl {

struct ExprNode;
class TensorNode;

// enumerator, function name in text
#define TW_UNARY_OPS(X) \
  X(Neg, "neg")         \
  X(Not, "not")         \
  X(Abs, "abs")         \
  X(Exp, "exp")         \
  X(Log, "log")         \
  X(Sqrt, "sqrt")       \
  X(Tanh, "tanh")       \
  X(Erf, "erf")         \
  X(Floor, "floor")     \
  X(Sin, "sin")         \
  X(Cos, "cos")         \
  X(Sigmoid, "sigmoid") \
  X(Round, "round")

// Columns: enumerator; text; precedence. A higher precedence binds tighter; 0 marks operations that
// are written as function calls, such as min(a, b).
#define TW_BINARY_OPS(X) \
  X(Add, "+", 8)         \
  X(Sub, "-", 8)         \
  X(Mul, "*", 9)         \
  X(Div, "/", 9)         \
  X(Mod, "%", 9)         \
  X(Min, "min", 0)       \
  X(Max, "max", 0)       \
  X(Lt, "<", 3)          \
  X(Le, "<=", 3)         \
  X(Eq, "==", 3)         \
  X(Ne, "!=", 3)         \
  X(And, "&&", 2)        \
  X(Or, "||", 1)         \
  X(Pow, "pow", 0)       \
  X(Shl, "<<", 7)        \
  X(Shr, ">>", 7)        \
  X(BitAnd, "&", 6)      \
  X(BitXor, "^", 5)      \
  X(BitOr, "|", 4)

enum class UnaryOp {
#define X(name, text) name,
  TW_UNARY_OPS(X)
#undef X
};
enum class BinaryOp {
#define X(name, text, precedence) name,
  TW_BINARY_OPS(X)
#undef X
};

/// The C++ types of numbers, which may be operands beside an expression.
template <typename T>
concept Arithmetic = std::is_arithmetic_v<T>;
/// The type to which a C++ number of type T is converted: double for floating-point types, uint64_t
/// for unsigned integers, int64_t for all others.
template <Arithmetic T>
using Widest = std::conditional_t<std::is_floating_point_v<T>, double,
                                  std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>;

class Expr {
 public:
  Expr() = default;     ///< empty; may only be assigned to
  Expr(int64_t value);  ///< an Int64 literal
  Expr(double value);   ///< a Float32 literal
  Expr(int value) : Expr(int64_t{value}) {}
  /// An Int64 literal with the bits of the value: 2^63 becomes -2^63.
  Expr(uint64_t value) : Expr(static_cast<int64_t>(value)) {}
  template <Arithmetic T>
  Expr(T value) : Expr(static_cast<Widest<T>>(value)) {}
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}

  const ExprNode& node() const { return *node_; }
  bool defined() const { return node_ != nullptr; }
  inline DType type() const;
  inline size_t hash() const;
  bool same_node(const Expr& other) const { return node_ == other.node_; }
  // Deleted, because `a == b` would look like an Expr that compares. Use eq() to build a
  // comparison, and equal() to compare two trees.
  friend bool operator==(const Expr& a, const Expr& b) = delete;

  /// Returns the node as T, or nullptr if it is of another kind.
  template <typename T>
  const T* as() const;

 private:
  std::shared_ptr<const ExprNode> node_;
};

struct Const {
  DType type;
  double float_value = 0;  ///< value of a float constant, already rounded to its type
  int64_t int_value = 0;   ///< value of any other constant
};
/// An axis or loop variable, always Int64.
struct Var {
  std::string name;
};
/// The element at `indices` of the tensor or buffer with the name `tensor`.
struct Read {
  std::string tensor;
  std::vector<Expr> indices;
  DType type;
  /// The declaration of the tensor, by which build() finds the tensors that an output depends on.
  /// Null in the expressions of a Compute. equal() does not compare it.
  std::shared_ptr<const TensorNode> source;
};
struct Unary {
  UnaryOp op;
  Expr a;
};
struct Binary {
  BinaryOp op;
  Expr a, b;
};
struct Select {
  Expr condition, a, b;
};
struct Cast {
  DType type;
  Expr a;
};

struct ExprNode {
  std::variant<Const, Var, Read, Unary, Binary, Select, Cast> value;
  DType type;
  size_t hash;
  /// number of nodes on the longest path to a leaf; a recursion over the tree is that deep
  int height;
  /// Number of nodes that a walk over the tree visits. A node with several parents counts once for
  /// each parent. Larger counts are stored as largest_count.
  int32_t size;
  /// The bitwise or of the variable_bit() of all variables in the tree. If the bit of a variable is
  /// 0, the tree does not use the variable; if it is 1, the tree may use it.
  uint64_t variables;
};

/// The largest height of a tree that check_size(), validate() and the parser accept. Functions that
/// recurse over a tree, including to_string(), require a tree of at most this height, so that they
/// do not overflow the stack.
inline constexpr int tallest_expression = 500;
/// The largest ExprNode::size that check_size(), validate() and the scheduling steps that enlarge
/// trees accept. The limit matters because nodes can be shared: thirty times `x = x + x` makes 30
/// nodes, but a walk over the tree visits 2^30.
inline constexpr int32_t largest_expression = 100'000;
inline constexpr int32_t largest_count = 1 << 30;

DType Expr::type() const { return node_->type; }
size_t Expr::hash() const { return node_->hash; }

template <typename T>
const T* Expr::as() const {
  return std::get_if<T>(&node_->value);
}

/// Calls the handler for the kind of the root node, and returns the handler's result. The handlers
/// must cover all kinds: Const, Var, Read, Unary, Binary, Select and Cast (base/visit.h).
template <typename... Handlers>
decltype(auto) visit(const Expr& expr, Handlers&&... handlers) {
  return visit_each(expr.node().value, std::forward<Handlers>(handlers)...);
}

Expr var(const std::string& name);
Expr constant(DType type, double value);
Expr constant_int(DType type, int64_t value);
/// Returns the constant that has this name in the text form: true or false; inf, nan or pi of type
/// f32; or inf, nan or pi of the float type that the name ends with, such as inff16. Returns
/// nullopt for other names.
std::optional<Expr> named_constant(std::string_view name);
Expr read(const std::string& tensor, std::vector<Expr> indices, DType type,
          std::shared_ptr<const TensorNode> source = nullptr);
Expr unary(UnaryOp op, Expr a);
/// Makes a binary operation and simplifies it. Operations on constants are computed, and x + 0, x *
/// 1 and x * 0 of integers are simplified. Frequent powers become cheaper operations: pow(x, 2.0)
/// becomes x * x. For Int64, the type of indices, shifts and masks by literals become arithmetic: x
/// >> 2 becomes x / 4, x << 2 becomes x * 4, and x & 3 becomes x % 4.
Expr binary(BinaryOp op, Expr a, Expr b);
Expr select(Expr condition, Expr a, Expr b);
Expr cast(DType type, Expr a);

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator%(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr operator<(const Expr& a, const Expr& b);
Expr operator<=(const Expr& a, const Expr& b);
Expr operator>(const Expr& a, const Expr& b);
Expr operator>=(const Expr& a, const Expr& b);
Expr operator&&(const Expr& a, const Expr& b);
Expr operator||(const Expr& a, const Expr& b);
Expr operator!(const Expr& a);
Expr operator<<(const Expr& a, const Expr& count);
Expr operator>>(const Expr& a, const Expr& count);
Expr operator&(const Expr& a, const Expr& b);
Expr operator|(const Expr& a, const Expr& b);
Expr operator^(const Expr& a, const Expr& b);
Expr eq(const Expr& a, const Expr& b);
Expr ne(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr clamp(const Expr& a, const Expr& low, const Expr& high);
Expr abs(const Expr& a);
Expr exp(const Expr& a);
Expr log(const Expr& a);
Expr sqrt(const Expr& a);
Expr tanh(const Expr& a);
Expr erf(const Expr& a);
Expr floor(const Expr& a);
Expr sin(const Expr& a);
Expr cos(const Expr& a);
Expr sigmoid(const Expr& a);  ///< 1 / (1 + exp(-a))
Expr round(const Expr& a);    ///< to the nearest whole number, ties to even
Expr pow(const Expr& a, const Expr& exponent);

/// Make the literal for a number that is used beside an expression of this type. A floating-point
/// number beside an integer type becomes a Float32. The operands then differ in type, so the
/// operation is rejected.
Expr number_beside(DType type, int64_t value);
Expr number_beside(DType type, uint64_t value);
Expr number_beside(DType type, double value);
template <Arithmetic T>
Expr operand_beside(const Expr& other, T value) {
  return number_beside(other.type(), static_cast<Widest<T>>(value));
}
inline const Expr& operand_beside(const Expr&, const Expr& operand) { return operand; }

#define TW_TAKES_NUMBERS(operation)            \
  template <Arithmetic T>                      \
  Expr operation(const Expr& a, T b) {         \
    return operation(a, operand_beside(a, b)); \
  }                                            \
  template <Arithmetic T>                      \
  Expr operation(T a, const Expr& b) {         \
    return operation(operand_beside(b, a), b); \
  }
TW_TAKES_NUMBERS(operator+)
TW_TAKES_NUMBERS(operator-)
TW_TAKES_NUMBERS(operator*)
TW_TAKES_NUMBERS(operator/)
TW_TAKES_NUMBERS(operator%)
TW_TAKES_NUMBERS(operator<)
TW_TAKES_NUMBERS(operator<=)
TW_TAKES_NUMBERS(operator>)
TW_TAKES_NUMBERS(operator>=)
TW_TAKES_NUMBERS(operator&&)
TW_TAKES_NUMBERS(operator||)
TW_TAKES_NUMBERS(operator<<)
TW_TAKES_NUMBERS(operator>>)
TW_TAKES_NUMBERS(operator&)
TW_TAKES_NUMBERS(operator|)
TW_TAKES_NUMBERS(operator^)
TW_TAKES_NUMBERS(eq)
TW_TAKES_NUMBERS(ne)
TW_TAKES_NUMBERS(min)
TW_TAKES_NUMBERS(max)
TW_TAKES_NUMBERS(pow)
#undef TW_TAKES_NUMBERS

template <typename Low, typename High>
requires(Arithmetic<Low> || Arithmetic<High>) Expr
    clamp(const Expr& a, const Low& low, const High& high) {
  return clamp(a, Expr(operand_beside(a, low)), Expr(operand_beside(a, high)));
}
template <Arithmetic T>
Expr select(const Expr& condition, const Expr& a, T b) {
  return select(condition, a, operand_beside(a, b));
}
template <Arithmetic T>
Expr select(const Expr& condition, T a, const Expr& b) {
  return select(condition, operand_beside(b, a), b);
}
/// Chooses between two C++ numbers. The type is Float32 if at least one of them is floating-point,
/// else Int64.
template <Arithmetic A, Arithmetic B>
Expr select(const Expr& condition, A a, B b) {
  constexpr DType type =
      std::is_floating_point_v<A> || std::is_floating_point_v<B> ? Float32 : Int64;
  return select(condition, number_beside(type, static_cast<Widest<A>>(a)),
                number_beside(type, static_cast<Widest<B>>(b)));
}

bool equal_nodes(const Expr& a, const Expr& b);  ///< called by equal() only
/// True if the trees have the same structure, operations, names and literals.
inline bool equal(const Expr& a, const Expr& b) {
  return a.same_node(b) || (a.hash() == b.hash() && equal_nodes(a, b));
}

/// Returns the value of an integer or bool literal; nullopt for any other expression.
inline std::optional<int64_t> as_int(const Expr& expr) {
  const Const* c = expr.as<Const>();
  if (!c || is_float(c->type)) return std::nullopt;
  return c->int_value;
}
inline bool is_int(const Expr& expr, int64_t value) {
  const Const* c = expr.as<Const>();
  return c && !is_float(c->type) && c->int_value == value;
}

/// True for a literal whose bytes are all 0: an integer 0, false or 0.0, but not -0.0.
bool is_zero_bytes(const Expr& expr);

/// Prints the expression. It has only the parentheses that parse_expr() in dsl/parse.h needs to
/// read the same tree back.
std::string to_string(const Expr& expr);

using Substitution = std::map<std::string, Expr>;
/// Replaces each variable that `replacements` names. The parts of the tree that change are rebuilt,
/// and rebuilding simplifies them as binary() does. If nothing changes, the result is the node of
/// `expr` itself.
Expr substitute(const Expr& expr, const Substitution& replacements);
Expr substitute(const Expr& expr, const std::string& variable, const Expr& replacement);
std::vector<Expr> substitute(const std::vector<Expr>& exprs, const Substitution& replacements);

/// Rewrites the tree bottom-up. `rewrite` is called for each node after its children were
/// rewritten. It returns the replacement, or nullopt to keep the node.
Expr transform(const Expr& expr, const std::function<std::optional<Expr>(const Expr&)>& rewrite);

/// Calls `see` on each node; a parent comes before its children.
template <typename See>
void for_each(const Expr& expr, const See& see) {
  see(expr);
  dsl::visit(
      expr,
      [&](const Binary& b) {
        for_each(b.a, see);
        for_each(b.b, see);
      },
      [&](const Read& r) {
        for (const Expr& index : r.indices) for_each(index, see);
      },
      [&](const Unary& u) { for_each(u.a, see); },
      [&](const Select& s) {
        for_each(s.condition, see);
        for_each(s.a, see);
        for_each(s.b, see);
      },
      [&](const Cast& c) { for_each(c.a, see); }, ignore<Const, Var>);
}

/// Calls `see` on each condition that `&&` joins, from left to right: on a, b and c of
/// `a && (b && c)`.
template <typename See>
void for_each_conjunct(const Expr& condition, const See& see) {
  const Binary* both = condition.as<Binary>();
  if (!both || both->op != BinaryOp::And) return see(condition);
  for_each_conjunct(both->a, see);
  for_each_conjunct(both->b, see);
}

bool uses_var(const Expr& expr, const std::string& name);
/// True if any of the expressions uses the variable.
bool uses_var(const std::vector<Expr>& exprs, const std::string& name);
/// True if the expression reads an element of a tensor.
bool reads_tensors(const Expr& expr);

/// Returns a number with one bit set, for ExprNode::variables. The hash of the name chooses the
/// bit, so two variables may have the same bit.
uint64_t variable_bit(const std::string& name);

/// True for shifts and bitwise operations.
constexpr bool is_bitwise(BinaryOp op) {
  return op == BinaryOp::Shl || op == BinaryOp::Shr || op == BinaryOp::BitAnd ||
         op == BinaryOp::BitOr || op == BinaryOp::BitXor;
}
/// Returns the result of Min, Max, a comparison, And or Or on two integers (1 for true, 0 for
/// false). Returns nullopt for any other operation.
constexpr std::optional<int64_t> order_result(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::Min:
      return b < a ? b : a;
    case BinaryOp::Max:
      return a < b ? b : a;
    case BinaryOp::Lt:
      return a < b;
    case BinaryOp::Le:
      return a <= b;
    case BinaryOp::Eq:
      return a == b;
    case BinaryOp::Ne:
      return a != b;
    case BinaryOp::And:
      return a != 0 && b != 0;
    case BinaryOp::Or:
      return a != 0 || b != 0;
    default:
      return std::nullopt;
  }
}
/// Returns the result of a shift or bitwise operation on two values of the integer type `type`. A
/// left shift wraps to the type. Requires: is_bitwise(op).
int64_t apply_bitwise(BinaryOp op, DType type, int64_t a, int64_t b);

std::string_view to_string(UnaryOp op);
std::string_view to_string(BinaryOp op);
int precedence(BinaryOp op);

/// Return an error text if the operation is not defined for operands of this type, such as "'exp'
/// needs a float, not i32". Return nullopt if it is defined.
std::optional<std::string> type_error(UnaryOp op, DType type);
std::optional<std::string> type_error(BinaryOp op, DType type);

}  // namespace tw::dsl
