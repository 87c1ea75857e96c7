// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/interval.h"

#include <algorithm>

#include "base/integer.h"
#include "schedules/program/affine.h"

namespace tw::schedules {

using dsl::Binary;
using dsl::BinaryOp;

namespace {

bool is_free_of(const Expr& expr, const std::map<std::string, int64_t>& inner) {
  bool is_free = true;
  dsl::for_each(expr, [&](const Expr& e) {
    if (const dsl::Var* v = e.as<dsl::Var>()) is_free &= !inner.contains(v->name);
  });
  return is_free;
}

Interval scaled(const Interval& a, int64_t k) {
  if (k >= 0) return {a.low * Expr(k), (a.extent - 1) * k + 1};
  return {(a.low + Expr(a.extent - 1)) * Expr(k), (a.extent - 1) * -k + 1};
}

/// Returns an upper bound of value % k, for any values of the variables.
int64_t greatest_remainder(const Expr& value, int64_t k) {
  const Affine affine = to_affine(value);
  const bool is_known = std::all_of(affine.terms.begin(), affine.terms.end(),
                                    [&](const Affine::Term& t) { return t.coefficient % k == 0; });
  return is_known ? floor_mod(affine.constant, k) : k - 1;
}

std::optional<Interval> atom_interval(const Expr& atom,
                                      const std::map<std::string, int64_t>& inner) {
  if (is_free_of(atom, inner)) return Interval{atom, 1};
  if (const dsl::Var* v = atom.as<dsl::Var>()) return Interval{Expr(0), inner.at(v->name)};
  const Binary* b = atom.as<Binary>();
  if (!b) return std::nullopt;
  const auto k = dsl::as_int(b->b);
  const auto a = interval_of(b->a, inner);
  if (!a || !k) return std::nullopt;
  switch (b->op) {
    case BinaryOp::Div:
      if (*k <= 0) return std::nullopt;
      return Interval{a->low / Expr(*k), (greatest_remainder(a->low, *k) + a->extent - 1) / *k + 1};
    case BinaryOp::Mod:
      if (*k <= 0) return std::nullopt;
      return Interval{Expr(0), *k};
    // Clamping is monotone, so the lower end stays the lower end, and never makes an interval
    // longer.
    case BinaryOp::Min:
      return Interval{dsl::min(a->low, Expr(*k)), a->extent};
    case BinaryOp::Max:
      return Interval{dsl::max(a->low, Expr(*k)), a->extent};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Interval> interval_of(const Expr& index,
                                    const std::map<std::string, int64_t>& inner) {
  const Affine affine = to_affine(index);
  Interval sum{Expr(affine.constant), 1};
  for (const Affine::Term& term : affine.terms) {
    const auto part = atom_interval(term.atom, inner);
    if (!part) return std::nullopt;
    const Interval s = scaled(*part, term.coefficient);
    sum.low = sum.low + s.low;
    sum.extent += s.extent - 1;
  }
  sum.low = to_expr(to_affine(sum.low));
  return sum;
}

std::optional<Interval> cover(const Interval& a, const Interval& b) {
  Affine distance = to_affine(b.low);
  distance.add(to_affine(a.low), -1);
  if (!distance.is_constant()) return std::nullopt;
  const int64_t d = distance.constant;
  const int64_t low = std::min<int64_t>(0, d);
  const int64_t high = std::max(a.extent, d + b.extent);
  return Interval{to_expr(to_affine(a.low + Expr(low))), high - low};
}

}  // namespace tw::schedules
