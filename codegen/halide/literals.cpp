// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/literals.h"

#include <cmath>
#include <map>
#include <optional>

namespace tw::codegen::halide {
namespace {

/// The value in the type that values of `type` are computed in.
double computed(DType type, double value) {
  return type == Float64 ? value : static_cast<float>(value);
}

bool is_normal(DType type, double value) {
  return value == 0 ||
         (type == Float64 ? std::isnormal(value) : std::isnormal(static_cast<float>(value)));
}

double gathered(const Expr& expr);

/// The literals of a product or a quotient together; nullopt where they are no normal number.
std::optional<double> gathered_by(const dsl::Binary& b) {
  const double x = gathered(b.a), y = gathered(b.b);
  const double together = b.op == BinaryOp::Mul ? x * y : x / y;
  const DType type = b.a.type();
  const bool may_invert = b.op == BinaryOp::Mul || is_normal(type, 1 / y);
  if (!may_invert || !is_normal(type, together)) return std::nullopt;
  return together;
}

/// The product of the literals that may be gathered from an expression.
double gathered(const Expr& expr) {
  if (const auto* c = expr.as<dsl::Const>()) return c->float_value;
  if (const auto* u = expr.as<dsl::Unary>()) return u->op == UnaryOp::Neg ? gathered(u->a) : 1;
  const auto* b = expr.as<dsl::Binary>();
  if (!b || (b->op != BinaryOp::Mul && b->op != BinaryOp::Div)) return 1;
  return gathered_by(*b).value_or(1);
}

/// Returns the sum of the magnitudes of the terms of an expression. A term counts with its literal,
/// or with its literal factor if it also has other factors. No partial sum of the literals, in
/// whatever order compilers add them, exceeds the result.
double magnitude(const Expr& expr) {
  if (const auto* u = expr.as<dsl::Unary>(); u && u->op == UnaryOp::Neg) return magnitude(u->a);
  const auto* b = expr.as<dsl::Binary>();
  if (b && (b->op == BinaryOp::Add || b->op == BinaryOp::Sub))
    return magnitude(b->a) + magnitude(b->b);
  return std::fabs(gathered(expr));
}

/// LLVM gathers literals from operands that are kept apart too, so all sums above are as well.
bool may_gather_terms(const dsl::Binary& b) {
  return std::isfinite(computed(b.a.type(), magnitude(b.a) + magnitude(b.b)));
}

/// The kinds of values that an expression or the elements of a buffer may have.
struct Contents {
  bool infinite = false;  ///< infinite literals
  bool other = false;     ///< values that are computed or loaded, and finite literals

  Contents operator|(const Contents& b) const { return {infinite || b.infinite, other || b.other}; }
};

/// `contents_of` returns the contents of the buffer of a name.
template <typename ContentsOf>
Contents contents(const Expr& expr, const ContentsOf& contents_of) {
  const auto inner = [&](const Expr& e) { return contents(e, contents_of); };
  return dsl::visit(
      expr,
      [](const dsl::Const& c) {
        const bool infinite = is_float(c.type) && std::isinf(c.float_value);
        return Contents{infinite, !infinite};
      },
      [&](const dsl::Read& r) { return contents_of(r.tensor); },
      [&](const dsl::Select& s) { return inner(s.a) | inner(s.b); },
      [&](const dsl::Cast& c) {
        return is_float(expr.type()) ? inner(c.a) : Contents{false, true};
      },
      [&](const dsl::Unary& u) {
        return u.op == UnaryOp::Neg ? inner(u.a) : Contents{false, true};
      },
      always<dsl::Var, dsl::Binary>(Contents{false, true}));
}

/// True if the expression is an infinite literal for some operands, as an attention mask is:
/// select(k <= j, 0, -inf).
bool may_be_infinite_literal(const Expr& expr, const BufferNames& infinite) {
  return contents(expr,
                  [&](const std::string& buffer) {
                    return Contents{infinite.contains(buffer), true};
                  })
      .infinite;
}

/// True if Halide may narrow this operation in f64 to a product of u16 and f16, which it cannot
/// compile: f64(u8) * 1.5 is one.
bool may_be_narrowed(const dsl::Binary& b) {
  if (b.a.type() != Float64) return false;
  bool has_unsigned = false, has_half = false;
  for (const Expr* operand : {&b.a, &b.b})
    dsl::for_each(*operand, [&](const Expr& e) {
      const auto* c = e.as<dsl::Cast>();
      const DType from = c ? c->a.type() : Float64;
      has_unsigned = has_unsigned || from == UInt8 || from == UInt16 || from == Bool;
      has_half =
          has_half || is_narrow_float(e.type()) || (e.as<dsl::Const>() && is_float(e.type()));
    });
  return has_unsigned && has_half;
}

bool compares(BinaryOp op) {
  return op == BinaryOp::Eq || op == BinaryOp::Ne || op == BinaryOp::Lt || op == BinaryOp::Le;
}

/// Returns the strict form of an operation, for which LLVM does not assume that no float is
/// infinite. With that assumption an operation on an infinite literal is undefined: LLVM makes x of
/// x + select(c, 0, -inf). nullopt if the operation has no strict form.
std::optional<hi::Call::IntrinsicOp> strict_operation(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
      return hi::Call::strict_add;
    case BinaryOp::Sub:
      return hi::Call::strict_sub;
    case BinaryOp::Mul:
      return hi::Call::strict_mul;
    case BinaryOp::Div:
      return hi::Call::strict_div;
    case BinaryOp::Eq:
    case BinaryOp::Ne:  // kept_apart() negates it
      return hi::Call::strict_eq;
    case BinaryOp::Lt:
      return hi::Call::strict_lt;
    case BinaryOp::Le:
      return hi::Call::strict_le;
    default:
      return std::nullopt;
  }
}

/// Returns the strict form of an operation if its literals must not be combined, else nullopt.
std::optional<hi::Call::IntrinsicOp> operation_kept_apart(const dsl::Binary& b,
                                                          const BufferNames& infinite) {
  if (!is_float(b.a.type())) return std::nullopt;
  if (may_be_infinite_literal(b.a, infinite) || may_be_infinite_literal(b.b, infinite))
    return strict_operation(b.op);
  bool must_be_strict = false;
  if (b.op == BinaryOp::Mul || b.op == BinaryOp::Div)
    must_be_strict = !gathered_by(b) || may_be_narrowed(b);
  else if (b.op == BinaryOp::Add || b.op == BinaryOp::Sub)
    must_be_strict = !may_gather_terms(b);
  return must_be_strict ? strict_operation(b.op) : std::nullopt;
}

}  // namespace

BufferNames buffers_of_infinite_literals(const Block& body) {
  std::map<std::string, Contents> all;
  BufferNames combined;
  const auto for_each_assign = [&](const auto& see) {
    schedules::for_each(body, [&](const Stmt& stmt) {
      if (const auto* assign = stmt.as<Assign>()) see(*assign);
    });
  };
  const auto contents_of = [&](const std::string& buffer) {
    const auto found = all.find(buffer);
    if (found == all.end()) return Contents{false, true};
    const bool is_reduction = found->second.other && combined.contains(buffer);
    return Contents{found->second.infinite && !is_reduction, found->second.other};
  };
  for_each_assign([&](const Assign& assign) {
    if (assign.combine != Combine::None) combined.insert(assign.buffer);
  });
  for_each_assign([&](const Assign& assign) {
    all[assign.buffer] = all[assign.buffer] | contents(assign.value, contents_of);
  });
  BufferNames infinite;
  for (const auto& [buffer, kinds] : all)
    if (contents_of(buffer).infinite) infinite.insert(buffer);
  return infinite;
}

HExpr kept_apart(const dsl::Binary& operation, const HExpr& a, const HExpr& b,
                 const BufferNames& infinite) {
  const auto strict = operation_kept_apart(operation, infinite);
  if (!strict) return {};
  const Halide::Type type = compares(operation.op) ? Halide::Bool(a.type().lanes()) : a.type();
  const HExpr result = hi::Call::make(type, *strict, {a, b}, hi::Call::PureIntrinsic);
  return operation.op == BinaryOp::Ne ? !result : result;
}

}  // namespace tw::codegen::halide
