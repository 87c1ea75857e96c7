// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "codegen/halide/arithmetic.h"
#include "codegen/halide/conversions.h"
#include "codegen/halide/float_bits.h"
#include "codegen/halide/phase_translator.h"

namespace tw::codegen::halide {
namespace {

HExpr literal(const dsl::Const& c) {
  if (c.type == Bool) return hi::make_bool(c.int_value != 0);
  if (!is_float(c.type)) return hi::make_const(value_type(c.type), c.int_value);
  return hi::make_const(value_type(c.type), c.float_value);
}

/// True if a select should become a branch. A concatenation of many tensors is a tree of selects.
/// Computing all sides would load from each tensor for each vector. A single select is cheaper than
/// a jump. If lanes may take different sides, because the concatenation is along the vector's axis,
/// a branch is impossible: Halide would compute it lane by lane, and takes wrong lanes of shuffles.
bool is_branch(const PhaseScope& scope, const dsl::Select& s) {
  const auto is_tree = [](const Expr& side) { return side.as<dsl::Select>() != nullptr; };
  return !uses_vector_variable(scope, s.condition) && (is_tree(s.a) || is_tree(s.b));
}

/// Returns a value that is computed as a branch, so only one side is computed. The loads of both
/// sides keep their masks, because the elimination of common subexpressions may move loads in front
/// of the branch.
HExpr branch_between(const HExpr& condition, const HExpr& a, const HExpr& b) {
  const int lanes = std::max(a.type().lanes(), b.type().lanes());
  const auto as_vector = [&](const HExpr& side) {
    return side.type().lanes() == lanes ? side : hi::Broadcast::make(side, lanes);
  };
  return hi::Call::make(a.type().with_lanes(lanes), hi::Call::if_then_else,
                        {condition, as_vector(a), as_vector(b)}, hi::Call::PureIntrinsic);
}

/// True for a literal that is a power of two.
bool has_exact_reciprocal(const Expr& expr) {
  const auto* c = expr.as<dsl::Const>();
  int exponent = 0;
  return c && std::fabs(std::frexp(c->float_value, &exponent)) == 0.5;
}

/// True if the expression is computed from elements of i32, apart from indices.
bool is_of_sums(const Expr& expr) {
  return dsl::visit(
      expr, [](const dsl::Read& r) { return r.type == Int32; },
      [](const dsl::Unary& u) { return is_of_sums(u.a); },
      [](const dsl::Binary& b) { return is_of_sums(b.a) || is_of_sums(b.b); },
      [](const dsl::Cast& c) { return is_of_sums(c.a); },
      [](const dsl::Select& s) { return is_of_sums(s.a) || is_of_sums(s.b); },
      always<dsl::Const, dsl::Var>(false));
}

/// Returns the quotient if round(expr) needs it exactly, else nullptr. Halide and LLVM multiply by
/// the reciprocal of a divisor: 0.45000002 / 0.02 is 22.500002, but 0.45000002 * 50 is 22.5, which
/// rounds to 22. The sums of quantized products, which have i32, are exempt: there the scales of
/// both sides become one factor, which costs less.
const dsl::Binary* exact_quotient(const Expr& expr) {
  const auto* b = expr.as<dsl::Binary>();
  const bool divides = b && b->op == BinaryOp::Div && is_float(expr.type());
  return divides && !has_exact_reciprocal(b->b) && !is_of_sums(b->a) ? b : nullptr;
}

}  // namespace

HExpr PhaseTranslator::value(const Expr& expr) {
  if (expr.type() == Int64) return Halide::cast(index64, integer(expr, scope_.width(expr)));
  return dsl::visit(
      expr, [&](const dsl::Const& c) { return literal(c); },
      [&](const dsl::Var&) { return HExpr(); },  // none: variables are Int64
      [&](const dsl::Read& r) { return to_value(r.type, read(r)); },
      [&](const dsl::Unary& u) {
        if (u.op == UnaryOp::Round) return rounded(u.a);
        const HExpr a = value(u.a);
        return arithmetic(u.op, keeps_infinity(u.op) ? operand(u.a, a) : a);
      },
      [&](const dsl::Binary& b) { return binary(b); },
      [&](const dsl::Cast& c) { return converted(c); },
      [&](const dsl::Select& s) { return selected(s); });
}

HExpr PhaseTranslator::integer(const Expr& expr, Halide::Type type) {
  return dsl::visit(
      expr, [&](const dsl::Const& c) { return hi::make_const(type, c.int_value); },
      [&](const dsl::Var& v) { return Halide::cast(type, scope_.variable(v.name).value); },
      [&](const dsl::Read& r) { return Halide::cast(type, read(r)); },
      [&](const dsl::Cast& c) {
        return is_float(c.a.type()) ? truncated(type, value(c.a)) : Halide::cast(type, value(c.a));
      },
      [&](const dsl::Unary& u) {
        const HExpr a = integer(u.a, type);
        if (type == index64) return arithmetic(u.op, a);  // the least number wraps to itself
        return u.op == UnaryOp::Neg ? -a : Halide::cast(type, Halide::abs(a));
      },
      [&](const dsl::Select& s) {
        const HExpr condition = value(s.condition);
        return Halide::select(condition, Halide::cast(type, guarded(condition, s.a)),
                              Halide::cast(type, guarded(!condition, s.b)));
      },
      [&](const dsl::Binary& b) {
        const HExpr x = integer(b.a, type), y = integer(b.b, type);
        return type == index64 && scope_.ranges().may_overflow(b.op, b.a, b.b)
                   ? wrapping(b.op, x, y)
                   : arithmetic(b.op, x, y);
      });
}

HExpr PhaseTranslator::both(const HExpr& outer, const HExpr& condition) {
  return outer.defined() ? outer && condition : condition;
}

HExpr PhaseTranslator::guarded(const HExpr& condition, const Expr& expr) {
  const HExpr outer = guard_;
  guard_ = both(outer, condition);
  const HExpr result = value(expr);
  guard_ = outer;
  return result;
}

HExpr PhaseTranslator::selected(const dsl::Select& s) {
  const HExpr condition = value(s.condition);
  const HExpr a = guarded(condition, s.a), b = guarded(!condition, s.b);
  const auto between = [&](const HExpr& x, const HExpr& y) {
    return is_branch(scope_, s) ? branch_between(condition, x, y) : Halide::select(condition, x, y);
  };
  if (!may_be_infinite_literal(s.a, infinite_) && !may_be_infinite_literal(s.b, infinite_))
    return between(a, b);
  // LLVM takes the float that a select or a branch returns to be finite. It concludes that
  // select(c, 0, -inf) is 0. A conversion to 16 bits computes with the bits of the float, so its
  // result would be 0, too. A select of bits may return any bits.
  const Halide::Type bits = a.type().with_code(halide_type_uint);
  return Halide::reinterpret(a.type(),
                             between(Halide::reinterpret(bits, a), Halide::reinterpret(bits, b)));
}

// LLVM moves an operation, such as a negation, into a select between literals, and takes the
// results to be finite. It cannot do so if the operand is hidden.
HExpr PhaseTranslator::operand(const Expr& expr, const HExpr& value) const {
  return may_be_infinite_literal(expr, infinite_) ? hidden(value) : value;
}

HExpr PhaseTranslator::binary(const dsl::Binary& b) {
  const Ranges& ranges = scope_.ranges();
  if (b.a.type() == Int64) {  // a comparison: both sides as narrow as they fit
    const Halide::Type type =
        ranges.all_fit_int32(b.a) && ranges.all_fit_int32(b.b) ? index32 : index64;
    return arithmetic(b.op, integer(b.a, type), integer(b.b, type));
  }
  HExpr a = value(b.a);
  if (b.op == BinaryOp::And) return a && guarded(a, b.b);
  if (b.op == BinaryOp::Or) return a || guarded(!a, b.b);
  HExpr c = value(b.b);
  if (b.op == BinaryOp::Min || b.op == BinaryOp::Max) {
    a = operand(b.a, a);
    c = operand(b.b, c);
  }
  if (const HExpr bits = comparison_with_infinity(b, a, c); bits.defined()) return bits;
  if (const HExpr apart = kept_apart(b, a, c, infinite_); apart.defined()) return apart;
  const bool wraps = !is_float(b.a.type()) && ranges.may_overflow(b.op, b.a, b.b);
  return wraps ? wrapping(b.op, a, c) : arithmetic(b.op, a, c);
}

HExpr PhaseTranslator::narrowed(DType type, const HExpr& value) {
  return to_value(type, to_storage(type, value, masks_.has_f16));
}

HExpr PhaseTranslator::rounded(const Expr& expr) {
  HExpr a;
  if (const dsl::Binary* quotient = exact_quotient(expr)) {
    const HExpr dividend = value(quotient->a), divisor = value(quotient->b);
    a = hi::Call::make(dividend.type(), hi::Call::strict_div, {dividend, divisor},
                       hi::Call::PureIntrinsic);
  } else {
    a = operand(expr, value(expr));
  }
  const DType type = expr.type();
  return arithmetic(UnaryOp::Round, is_narrow_float(type) ? narrowed(type, a) : a);
}

HExpr PhaseTranslator::converted(const dsl::Cast& c) {
  const DType from = c.a.type();
  const HExpr a = from == Int64 ? integer(c.a, scope_.width(c.a)) : value(c.a);
  if (c.type == Bool) return a != hi::make_zero(a.type());
  if (is_narrow_float(c.type)) {
    if (from == Float64) return narrowed(c.type, to_odd_f32(a));
    if (!is_float(from) && !scope_.ranges().of(c.a).fits_f32())
      return narrowed(c.type, to_odd_f32(Halide::cast(Halide::Float(64), a)));
    return narrowed(c.type, Halide::cast(Halide::Float(32), a));
  }
  if (is_float(from) && !is_float(c.type)) return truncated(value_type(c.type), a);
  return Halide::cast(value_type(c.type), a);
}

}  // namespace tw::codegen::halide
