// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/arithmetic.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/result.h"
#include "codegen/halide/float_bits.h"
#include "codegen/halide/functions.h"

namespace tw::codegen::halide {
namespace {

/// Divides integers, rounding towards minus infinity; the result is 0 if the divisor is 0. Halide's
/// division differs: its remainders are never negative, and it traps on the least number over -1.
HExpr floor_division(BinaryOp op, const HExpr& a, const HExpr& b) {
  const Halide::Type type = a.type();
  const HExpr zero = hi::make_zero(type), one = hi::make_one(type);
  const HExpr by_zero = b == zero;
  HExpr inverts = hi::const_false();
  if (type.is_int()) inverts = b == hi::make_const(type, -1);
  const HExpr divisor = Halide::select(by_zero || inverts, one, b);
  const HExpr rest = Halide::mod_round_to_zero(a, divisor);
  const HExpr rounds = rest != zero && ((rest < zero) != (divisor < zero));
  if (op == BinaryOp::Mod) return Halide::select(rounds, rest + divisor, rest);
  const HExpr quotient = Halide::div_round_to_zero(a, divisor);
  const Halide::Type modular = type.with_code(halide_type_uint);
  const HExpr negated = Halide::cast(type, hi::make_zero(modular) - Halide::cast(modular, a));
  return Halide::select(by_zero, zero, inverts, negated, rounds, quotient - one, quotient);
}

bool divides_as_halide(const HExpr& divisor) {
  return divisor.type().is_float() || hi::is_positive_const(divisor);
}

/// Shifts by a count that is reduced modulo the number of bits. Halide shifts to the other side by
/// a negative count, and leaves large counts undefined.
HExpr shifted(BinaryOp op, const HExpr& a, const HExpr& b) {
  const Halide::Type modular = a.type().with_code(halide_type_uint);
  const Halide::Type counts = b.type().with_code(halide_type_uint);
  const HExpr count = Halide::cast(counts, b) & hi::make_const(counts, counts.bits() - 1);
  if (op == BinaryOp::Shr) return a >> count;
  return Halide::cast(a.type(), Halide::cast(modular, a) << count);
}

/// Names common subexpressions by Let. Halide's passes visit a node once for each of its parents.
/// Without names, compile time would grow exponentially with the depth of nested operations that
/// use an operand several times: sin(sin(sin(x))) took 57 s.
HExpr with_names(const HExpr& value) { return hi::common_subexpression_elimination(value); }

}  // namespace

HExpr arithmetic(BinaryOp op, const HExpr& a, const HExpr& b) {
  switch (op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Sub:
      return a - b;
    case BinaryOp::Mul:
      return a * b;
    case BinaryOp::Div:
      return divides_as_halide(b) ? a / b : with_names(floor_division(op, a, b));
    case BinaryOp::Mod:
      return divides_as_halide(b) ? a % b : with_names(floor_division(op, a, b));
    case BinaryOp::Pow:
      return with_names(is_double(a) ? pow_f64(a, b) : pow_f32(a, b));
    case BinaryOp::Min:
      return hi::Min::make(a, b);
    case BinaryOp::Max:
      return hi::Max::make(a, b);
    case BinaryOp::Lt:
      return a < b;
    case BinaryOp::Le:
      return a <= b;
    case BinaryOp::Eq:
      return a == b;
    case BinaryOp::Ne:
      return a != b;
    case BinaryOp::And:
      return a && b;
    case BinaryOp::Or:
      return a || b;
    case BinaryOp::Shl:
    case BinaryOp::Shr:
      return shifted(op, a, b);
    case BinaryOp::BitAnd:
      return a & b;
    case BinaryOp::BitOr:
      return a | b;
    case BinaryOp::BitXor:
      return a ^ b;
  }
  TW_CHECK(false);
}

/// Halide leaves signed overflow of 32 and 64 bits undefined; unsigned arithmetic wraps.
HExpr wrapping(BinaryOp op, const HExpr& a, const HExpr& b) {
  const Halide::Type type = a.type();
  const bool can_wrap = op == BinaryOp::Add || op == BinaryOp::Sub || op == BinaryOp::Mul;
  if (!can_wrap || !type.is_int() || type.bits() < 32) return arithmetic(op, a, b);
  const Halide::Type modular = type.with_code(halide_type_uint);
  return Halide::cast(type, arithmetic(op, Halide::cast(modular, a), Halide::cast(modular, b)));
}

HExpr arithmetic(UnaryOp op, const HExpr& a) {
  switch (op) {
    case UnaryOp::Neg:
      return wrapping(BinaryOp::Sub, hi::make_zero(a.type()), a);
    case UnaryOp::Not:
      return !a;
    case UnaryOp::Abs:
      // Halide takes abs() of the least i64 to be positive.
      if (a.type().is_int() && a.type().bits() == 64)
        return Halide::select(a < hi::make_zero(a.type()), arithmetic(UnaryOp::Neg, a), a);
      return Halide::cast(a.type(), Halide::abs(a));
    case UnaryOp::Exp:
      return with_names(is_double(a) ? exp_f64(a) : exp_f32(a));
    case UnaryOp::Log:
      return with_names(is_double(a) ? log_f64(a) : log_f32(a));
    case UnaryOp::Sqrt:
      return Halide::sqrt(a);
    case UnaryOp::Tanh:
      return with_names(is_double(a) ? tanh_f64(a) : tanh_f32(a));
    case UnaryOp::Erf:
      return with_names(is_double(a) ? erf_f64(a) : erf_f32(a));
    case UnaryOp::Floor:
      return Halide::floor(a);
    case UnaryOp::Sin:
      return with_names(is_double(a) ? sin_f64(a, 0) : sin_f32(a, 0));
    case UnaryOp::Cos:
      return with_names(is_double(a) ? sin_f64(a, 1) : sin_f32(a, 1));
    case UnaryOp::Sigmoid:
      return with_names(is_double(a) ? sigmoid_f64(a) : sigmoid_f32(a));
    case UnaryOp::Round:
      return Halide::round(a);
  }
  TW_CHECK(false);
}

HExpr combined(Combine combine, const HExpr& old, const HExpr& value) {
  switch (combine) {
    case Combine::None:
      return value;
    case Combine::Sum:
      return wrapping(BinaryOp::Add, old, value);
    case Combine::Prod:
      return wrapping(BinaryOp::Mul, old, value);
    case Combine::Min:
      return hi::Min::make(old, value);
    case Combine::Max:
      return hi::Max::make(old, value);
  }
  TW_CHECK(false);
}

namespace {

bool is_infinite_literal(const Expr& expr) {
  const auto* c = expr.as<dsl::Const>();
  return c && is_float(c->type) && std::isinf(c->float_value);
}

}  // namespace

HExpr comparison_with_infinity(const dsl::Binary& operation, const HExpr& a, const HExpr& b) {
  const bool is_right = is_infinite_literal(operation.b);
  if (!is_right && !is_infinite_literal(operation.a)) return {};
  const HExpr bits = hidden_bits(is_right ? a : b);
  const uint64_t sign = uint64_t{1} << (bits.type().bits() - 1);
  const uint64_t infinity = bits.type().bits() == 64 ? std::bit_cast<uint64_t>(HUGE_VAL)
                                                     : std::bit_cast<uint32_t>(HUGE_VALF);
  const auto constant = [&](uint64_t value) { return hi::make_const(bits.type(), value); };
  const bool negative = (is_right ? operation.b : operation.a).as<dsl::Const>()->float_value < 0;
  const HExpr is_equal = bits == constant(infinity | (negative ? sign : 0));
  const HExpr is_number = (bits & constant(sign - 1)) <= constant(infinity);
  // True if the literal is the largest number of those that the operation allows for x.
  const bool bounds = is_right != negative;
  switch (operation.op) {
    case BinaryOp::Eq:
      return is_equal;
    case BinaryOp::Ne:
      return !is_equal;
    case BinaryOp::Le:
      return bounds ? is_number : is_equal;
    case BinaryOp::Lt:
      return bounds ? is_number && !is_equal : hi::const_false(a.type().lanes());
    default:
      return {};
  }
}

}  // namespace tw::codegen::halide
