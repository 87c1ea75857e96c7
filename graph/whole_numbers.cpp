// SPDX-License-Identifier: Apache-2.0
#include "graph/whole_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace tw::graph {
namespace {

using dsl::Binary;
using dsl::BinaryOp;
using dsl::Cast;
using dsl::Expr;

/// f32 represents all whole numbers up to this magnitude.
constexpr double most_exact = 1 << 24;

struct Interval {
  double least = 0, largest = 0;

  bool is_exact() const { return least >= -most_exact && largest <= most_exact; }
  bool is_in(DType type) const {
    if (is_float(type)) return is_exact();
    const IntegerLimits limits = integer_limits(type);
    return least >= static_cast<double>(limits.least) &&
           largest <= static_cast<double>(limits.largest);
  }
};

std::optional<Interval> combined(BinaryOp op, const Interval& a, const Interval& b) {
  switch (op) {
    case BinaryOp::Add:
      return Interval{a.least + b.least, a.largest + b.largest};
    case BinaryOp::Sub:
      return Interval{a.least - b.largest, a.largest - b.least};
    case BinaryOp::Min:
      return Interval{std::min(a.least, b.least), std::min(a.largest, b.largest)};
    case BinaryOp::Max:
      return Interval{std::max(a.least, b.least), std::max(a.largest, b.largest)};
    default:
      return std::nullopt;
  }
}

/// Returns the range of an f32 expression whose values are whole numbers. nullopt for other
/// expressions.
std::optional<Interval> whole_range(const Expr& expr) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (expr.type() != Float32) return std::nullopt;
  if (const dsl::Const* c = expr.as<dsl::Const>()) {
    const double value = c->float_value;
    return std::floor(value) == value ? std::optional(Interval{value, value}) : std::nullopt;
  }
  if (const dsl::Unary* u = expr.as<dsl::Unary>())
    return u->op == dsl::UnaryOp::Round ? std::optional(Interval{-infinity, infinity})
                                        : std::nullopt;
  const Binary* b = expr.as<Binary>();
  if (!b) return std::nullopt;
  const auto first = whole_range(b->a), second = whole_range(b->b);
  return first && second ? combined(b->op, *first, *second) : std::nullopt;
}

/// An expression of f32 with the value of an expression of integers.
struct AsFloat {
  Expr expr;
  Interval range;
};

/// Returns the f32 expression from which an integer expression was converted, with its range.
/// nullopt if the integers do not come from floats, or may exceed `most_exact`.
std::optional<AsFloat> as_float(const Expr& expr) {
  if (is_float(expr.type()) || expr.type() == Bool) return std::nullopt;
  if (const Cast* cast = expr.as<Cast>()) {
    std::optional<AsFloat> inner;
    if (const auto range = whole_range(cast->a))
      inner = AsFloat{cast->a, *range};
    else
      inner = as_float(cast->a);
    return inner && inner->range.is_exact() && inner->range.is_in(cast->type) ? inner
                                                                              : std::nullopt;
  }
  const Binary* b = expr.as<Binary>();
  const auto number = b ? dsl::as_int(b->b) : std::nullopt;
  const auto first = number ? as_float(b->a) : std::nullopt;
  if (!first || (b->op != BinaryOp::Add && b->op != BinaryOp::Sub)) return std::nullopt;
  const auto value = static_cast<double>(*number);
  const auto range = combined(b->op, first->range, {value, value});
  if (!range->is_exact() || !range->is_in(expr.type())) return std::nullopt;
  return AsFloat{dsl::binary(b->op, first->expr, dsl::constant(Float32, value)), *range};
}

}  // namespace

Expr without_round_trips(const Expr& expr) {
  return dsl::transform(expr, [](const Expr& node) -> std::optional<Expr> {
    const Cast* cast = node.as<Cast>();
    if (!cast || is_float(cast->a.type())) return std::nullopt;
    const auto whole = as_float(cast->a);
    if (!whole || !whole->range.is_in(cast->type)) return std::nullopt;
    return dsl::cast(cast->type, whole->expr);
  });
}

}  // namespace tw::graph
