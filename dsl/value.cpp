// SPDX-License-Identifier: Apache-2.0
#include "dsl/value.h"

#include <cmath>

#include "base/integer.h"
#include "dsl/compute.h"

namespace tw::dsl {
namespace {

int64_t wrapping(BinaryOp op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case BinaryOp::Add:
      return static_cast<int64_t>(x + y);
    case BinaryOp::Sub:
      return static_cast<int64_t>(x - y);
    default:
      return static_cast<int64_t>(x * y);
  }
}

/// Divides, rounding towards minus infinity; division by 0 gives 0. The least integer divided by -1
/// wraps to itself, as its negation does.
int64_t divided(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapping(BinaryOp::Sub, 0, a) : floor_div(a, b);
}

int64_t remainder_of(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : floor_mod(a, b); }

int64_t int_result(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
      return wrapping(op, a, b);
    case BinaryOp::Div:
      return divided(a, b);
    case BinaryOp::Mod:
      return remainder_of(a, b);
    default:
      const std::optional<int64_t> result = order_result(op, a, b);
      TW_CHECK(result, "not an operation on integers");
      return *result;
  }
}

Value float_result(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add:
      return {a + b, 0};
    case BinaryOp::Sub:
      return {a - b, 0};
    case BinaryOp::Mul:
      return {a * b, 0};
    case BinaryOp::Div:
      return {a / b, 0};
    case BinaryOp::Pow:
      return {std::pow(a, b), 0};
    case BinaryOp::Min:
      return {std::fmin(a, b), 0};
    case BinaryOp::Max:
      return {std::fmax(a, b), 0};
    case BinaryOp::Lt:
      return {0, a < b};
    case BinaryOp::Le:
      return {0, a <= b};
    case BinaryOp::Eq:
      return {0, a == b};
    case BinaryOp::Ne:
      return {0, a != b};
    default:
      TW_CHECK(false, "not an operation on floats");
  }
}

double float_unary(UnaryOp op, double a) {
  switch (op) {
    case UnaryOp::Neg:
      return -a;
    case UnaryOp::Abs:
      return std::fabs(a);
    case UnaryOp::Exp:
      return std::exp(a);
    case UnaryOp::Log:
      return std::log(a);
    case UnaryOp::Sqrt:
      return std::sqrt(a);
    case UnaryOp::Tanh:
      return std::tanh(a);
    case UnaryOp::Erf:
      return std::erf(a);
    case UnaryOp::Floor:
      return std::floor(a);
    case UnaryOp::Sin:
      return std::sin(a);
    case UnaryOp::Cos:
      return std::cos(a);
    case UnaryOp::Sigmoid:
      return 1 / (1 + std::exp(-a));
    case UnaryOp::Round:
      return std::nearbyint(a);  // halves to even: nothing here changes the mode of rounding
    case UnaryOp::Not:
      break;
  }
  TW_CHECK(false, "not an operation on floats");
}

int64_t saturate(DType type, double value) {
  if (std::isnan(value)) return 0;
  if (type == Bool) return value != 0;
  const int64_t least = *as_int(identity(Combine::Max, type));
  const int64_t largest = *as_int(identity(Combine::Min, type));
  if (value <= static_cast<double>(least)) return least;
  if (value >= static_cast<double>(largest)) return largest;
  return static_cast<int64_t>(value);
}

}  // namespace

Value apply(BinaryOp op, DType operands, DType result, Value a, Value b) {
  if (is_float(operands)) return float_result(op, a.f, b.f);
  if (is_bitwise(op)) return {0, apply_bitwise(op, operands, a.i, b.i)};
  return {0, wrap_to(result, int_result(op, a.i, b.i))};
}

Value apply(UnaryOp op, DType type, Value a) {
  // The operand is rounded to its type first, because ties must be decided by the value that a
  // kernel has, which is of this type.
  if (op == UnaryOp::Round) a.f = round_to(type, a.f);
  if (is_float(type)) return {float_unary(op, a.f), 0};
  if (op == UnaryOp::Not) return {0, !a.i};
  const bool negate = op == UnaryOp::Neg || a.i < 0;
  return {0, negate ? wrap_to(type, wrapping(BinaryOp::Sub, 0, a.i)) : a.i};
}

Value convert(DType from, DType to, Value a) {
  if (is_float(to)) return {round_to(to, is_float(from) ? a.f : static_cast<double>(a.i)), 0};
  return {0, is_float(from) ? saturate(to, a.f) : wrap_to(to, a.i)};
}

double rounding_of_sum(double a, double b) {
  const double sum = a + b, of_b = sum - a;
  return (a - (sum - of_b)) + (b - of_b);
}

void CompensatedSum::add(double term) {
  lost_ += rounding_of_sum(sum_, term);
  sum_ += term;
}

double CompensatedSum::value() const { return std::isfinite(sum_) ? sum_ + lost_ : sum_; }

std::optional<std::string> divisor_error(BinaryOp op, const Expr& divisor) {
  if (op != BinaryOp::Div && op != BinaryOp::Mod) return std::nullopt;
  const Const* literal = divisor.as<Const>();
  if (!literal) return std::nullopt;
  if (is_float(literal->type) && literal->float_value == 0)
    return "divides by 0: every element would be infinite or NaN";
  if (!is_float(literal->type) && literal->int_value == 0)
    return "divides by 0: every element would be 0";
  return std::nullopt;
}

}  // namespace tw::dsl
