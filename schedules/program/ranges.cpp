// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/ranges.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/integer.h"

namespace tw::schedules {
namespace {

using dsl::BinaryOp;

constexpr int64_t least = std::numeric_limits<int64_t>::min();
constexpr int64_t largest = std::numeric_limits<int64_t>::max();

bool is_unknown(int64_t bound) { return bound == least || bound == largest; }

int64_t saturating_add(int64_t a, int64_t b) {
  if (is_unknown(a)) return a;
  if (is_unknown(b)) return b;
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? least : largest;
  return sum;
}

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) != (b < 0) ? least : largest;
  return product;
}

int64_t negated(int64_t a) { return a == least ? largest : a == largest ? least : -a; }

Range product(Range a, Range b) {
  const auto [low, high] =
      std::minmax({saturating_mul(a.low, b.low), saturating_mul(a.low, b.high),
                   saturating_mul(a.high, b.low), saturating_mul(a.high, b.high)});
  return {low, high};
}

/// Returns a range for results whose magnitude is at most that of some number in `a`, and which are
/// negative only if `a` has negative numbers. If `a` is unknown, so is the result.
Range up_to_magnitude(Range a) {
  if (is_unknown(a.low) || is_unknown(a.high)) return {};
  const int64_t most = std::max(std::abs(a.low), std::abs(a.high));
  return {a.low >= 0 ? 0 : -most, most};
}

Range quotient(Range a, Range b, const Expr& divisor) {
  const auto k = dsl::as_int(divisor);
  if (!k || *k <= 0) {
    const Range all = up_to_magnitude(a);
    return b.low >= 0 || is_unknown(all.low) ? all : Range{-all.high, all.high};
  }
  return {is_unknown(a.low) ? a.low : floor_div(a.low, *k),
          is_unknown(a.high) ? a.high : floor_div(a.high, *k)};
}

/// Returns the range of a remainder, which has the sign of the divisor and a smaller magnitude. The
/// remainder of a division by 0 is 0.
Range remainder(Range a, Range b, const Expr& divisor) {
  const auto k = dsl::as_int(divisor);
  if (!k || *k <= 0) return {b.low >= 0 ? 0 : b.low, b.high <= 0 ? 0 : b.high};
  if (a.low >= 0 && a.high < *k) return a;
  return {0, *k - 1};
}

/// Returns the range of a >> count. A shift to the right never makes a number larger. A literal
/// count below the number of bits of every type divides both bounds by a power of two.
Range shifted_right(Range a, const Expr& count) {
  const auto k = dsl::as_int(count);
  if (k && *k >= 0 && *k < 8)
    return {is_unknown(a.low) ? a.low : a.low >> *k, is_unknown(a.high) ? a.high : a.high >> *k};
  return {a.low >= 0 ? 0 : a.low, a.high < 0 ? -1 : a.high};
}

/// Returns the range of a & b. It has no bit that an operand lacks, so an operand that is not
/// negative bounds it.
Range masked(Range a, Range b) {
  if (a.low >= 0 && b.low >= 0) return {0, std::min(a.high, b.high)};
  if (a.low >= 0) return {0, a.high};
  if (b.low >= 0) return {0, b.high};
  return {};
}

/// Returns the range of a | b and of a ^ b. Neither has a bit above the highest bit of both
/// operands.
Range joined(Range a, Range b) {
  if (a.low < 0 || b.low < 0 || is_unknown(a.high) || is_unknown(b.high)) return {};
  const auto bits = std::bit_width(static_cast<uint64_t>(std::max(a.high, b.high)));
  return {0, static_cast<int64_t>((uint64_t{1} << bits) - 1)};
}

Range of_type(DType type) {
  if (is_float(type) || type == Int64) return {};
  const IntegerLimits limits = integer_limits(type);
  return {limits.least, limits.largest};
}

Range of_binary(BinaryOp op, Range x, Range y, const Expr& divisor) {
  switch (op) {
    case BinaryOp::Add:
      return {saturating_add(x.low, y.low), saturating_add(x.high, y.high)};
    case BinaryOp::Sub:
      return {saturating_add(x.low, negated(y.high)), saturating_add(x.high, negated(y.low))};
    case BinaryOp::Mul:
      return product(x, y);
    case BinaryOp::Div:
      return quotient(x, y, divisor);
    case BinaryOp::Mod:
      return remainder(x, y, divisor);
    case BinaryOp::Min:
      return {std::min(x.low, y.low), std::min(x.high, y.high)};
    case BinaryOp::Max:
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    case BinaryOp::Shr:
      return shifted_right(x, divisor);
    case BinaryOp::BitAnd:
      return masked(x, y);
    case BinaryOp::BitOr:
    case BinaryOp::BitXor:
      return joined(x, y);
    default:
      return {};
  }
}

/// Returns the range of a result in `type`. An exact result outside of the type wraps, and may
/// become any value of the type.
Range within(DType type, Range exact) {
  const Range all = of_type(type);
  return exact.low >= all.low && exact.high <= all.high ? exact : all;
}

/// True if the operation may give a number that is larger than its operands. If an end of the range
/// of its result is unknown, the result may then lie outside of i64.
bool may_grow(BinaryOp op) {
  return op == BinaryOp::Add || op == BinaryOp::Sub || op == BinaryOp::Mul || op == BinaryOp::Shl;
}

/// Returns the range of a sum, difference or product in `type`.
Range grown_within(DType type, Range exact) {
  return is_unknown(exact.low) || is_unknown(exact.high) ? of_type(type) : within(type, exact);
}

bool is_number(DType type) { return !is_float(type) && type != Bool; }

}  // namespace

bool Range::fits_int32() const {
  return low >= std::numeric_limits<int32_t>::min() && high <= std::numeric_limits<int32_t>::max();
}

bool Range::fits_f32() const { return low >= -(1 << 24) && high <= 1 << 24; }

void Ranges::set(const std::string& variable, const Expr& begin, const Expr& end) {
  const Range first = of(begin), last = of(end);
  // If the loop may be empty, `high` may lie below `first.low`. A range must not end before it
  // begins.
  const int64_t high = is_unknown(last.high) ? last.high : last.high - 1;
  variables_[variable] = {first.low, std::max(first.low, high)};
}

Range Ranges::of(const Expr& expr) const {
  if (const auto value = dsl::as_int(expr)) return {*value, *value};
  const DType type = expr.type();
  if (!is_number(type)) return of_type(type);
  return dsl::visit(
      expr,
      [&](const dsl::Var& v) {
        const auto found = variables_.find(v.name);
        return found == variables_.end() ? others_ : found->second;
      },
      [&](const dsl::Select& s) {
        const Range a = of(s.a), b = of(s.b);
        return Range{std::min(a.low, b.low), std::max(a.high, b.high)};
      },
      [&](const dsl::Cast& c) {
        return is_float(c.a.type()) ? of_type(type) : within(type, of(c.a));
      },
      [&](const dsl::Unary& u) {
        const Range a = of(u.a);
        const Range minus = {negated(a.high), negated(a.low)};
        if (u.op == dsl::UnaryOp::Neg) return grown_within(type, minus);
        return grown_within(
            type, {std::max<int64_t>(0, std::max(a.low, minus.low)), std::max(a.high, minus.high)});
      },
      [&](const dsl::Binary& b) {
        const Range exact = of_binary(b.op, of(b.a), of(b.b), b.b);
        return may_grow(b.op) ? grown_within(type, exact) : within(type, exact);
      },
      always<dsl::Const, dsl::Read>(of_type(type)));
}

bool Ranges::may_overflow(BinaryOp op, const Expr& a, const Expr& b) const {
  const Range exact = of_binary(op, of(a), of(b), b);
  const Range all = of_type(a.type());
  return is_unknown(exact.low) || is_unknown(exact.high) || exact.low < all.low ||
         exact.high > all.high;
}

bool Ranges::all_fit_int32(const Expr& expr) const {
  if (expr.as<dsl::Read>()) return of(expr).fits_int32();
  if (expr.type() == Int64 && !of(expr).fits_int32()) return false;
  return dsl::visit(
      expr, [&](const dsl::Unary& u) { return all_fit_int32(u.a); },
      [&](const dsl::Cast& c) { return all_fit_int32(c.a); },
      [&](const dsl::Binary& b) {
        // Counts of shifts are taken modulo the bits of the type, so 32-bit code cannot shift by 32
        // or more.
        if (expr.type() == Int64 && (b.op == BinaryOp::Shl || b.op == BinaryOp::Shr))
          if (const Range count = of(b.b); count.low < 0 || count.high > 31) return false;
        return all_fit_int32(b.a) && all_fit_int32(b.b);
      },
      [&](const dsl::Select& s) {
        return all_fit_int32(s.condition) && all_fit_int32(s.a) && all_fit_int32(s.b);
      },
      always<dsl::Const, dsl::Var, dsl::Read>(true));
}

bool Ranges::all_fit_int32(const Affine& affine) const {
  const auto fits = [](int64_t number) { return Range{number, number}.fits_int32(); };
  if (!fits(affine.constant)) return false;
  int64_t total = std::abs(affine.constant);
  for (const Affine::Term& term : affine.terms) {
    if (!fits(term.coefficient) || !all_fit_int32(term.atom)) return false;
    const Range range = of(term.atom);
    const int64_t magnitude = std::max(std::abs(range.low), std::abs(range.high));
    total = saturating_add(total, saturating_mul(magnitude, std::abs(term.coefficient)));
  }
  return total <= std::numeric_limits<int32_t>::max();
}

}  // namespace tw::schedules
