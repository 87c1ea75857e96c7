// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/affine.h"

#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

namespace tw::schedules {

using dsl::Binary;
using dsl::BinaryOp;

namespace {

Affine negated(const Affine& affine) {
  Affine result;
  result.add(affine, -1);
  return result;
}

/// Returns sum + factor * value, wrapped to int64. The builtins store wrapped results.
int64_t wrapping_sum(int64_t sum, int64_t factor, int64_t value) {
  int64_t product;
  __builtin_mul_overflow(factor, value, &product);
  __builtin_add_overflow(sum, product, &sum);
  return sum;
}

/// Returns |value|; the least int64 wraps to itself.
int64_t magnitude(int64_t value) { return value < 0 ? wrapping_sum(0, -1, value) : value; }

/// True if the expression contains an element of an i64 tensor, or a float that is converted to
/// i64.
bool has_wide_element(const Expr& expr) {
  bool has = false;
  dsl::for_each(expr, [&](const Expr& e) {
    const auto* cast = e.as<dsl::Cast>();
    has |= e.type() == Int64 && (e.as<dsl::Read>() || (cast && is_float(cast->a.type())));
  });
  return has;
}

bool depends_on_axes_alone(const Expr& expr) {
  bool reads = false;
  dsl::for_each(expr, [&](const Expr& e) { reads |= e.as<dsl::Read>() != nullptr; });
  return !reads && !dsl::as_int(expr);
}

/// True if elements of i64 are compared with each other or with literals, and no axis is in the
/// comparison. Terms of such a comparison must not be moved to its other side, because an element
/// may have any value, and the sums would wrap. Elements that are compared with axes must be
/// between -2^62 and 2^62 (docs/expressions.md).
bool compares_elements(const Affine& left, const Affine& right) {
  bool elements = false, axes = false;
  for (const Affine* side : {&left, &right})
    for (const Affine::Term& term : side->terms) {
      elements = elements || has_wide_element(term.atom);
      axes = axes || depends_on_axes_alone(term.atom);
    }
  return elements && !axes;
}

void add_conjunct(const Expr& condition, Constraints& out) {
  if (dsl::is_int(condition, 1)) return;
  const Binary* b = condition.as<Binary>();
  // Narrower integers wrap: a - b <= 3 is not a <= b + 3.
  const bool compares = b && b->a.type() == Int64 && b->op != BinaryOp::Ne;
  const Affine left = compares ? to_affine(b->a) : Affine();
  Affine difference = compares ? to_affine(b->b) : Affine();
  if (!compares || compares_elements(left, difference)) {
    out.opaque.push_back(condition);
    return;
  }
  difference.add(left, -1);
  if (b->op == BinaryOp::Lt) difference.constant -= 1;
  out.affine.push_back(difference);
  if (b->op == BinaryOp::Eq) out.affine.push_back(negated(difference));
}

}  // namespace

void Affine::add(const Expr& atom, int64_t factor) {
  if (factor == 0) return;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!dsl::equal(terms[i].atom, atom)) continue;
    terms[i].coefficient = wrapping_sum(terms[i].coefficient, 1, factor);
    if (terms[i].coefficient == 0) terms.erase(terms.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
  terms.push_back({atom, factor});
}

void Affine::add(const Affine& other, int64_t factor) {
  constant = wrapping_sum(constant, factor, other.constant);
  for (const Term& term : other.terms) add(term.atom, wrapping_sum(0, factor, term.coefficient));
}

int64_t Affine::coefficient(const Expr& atom) const {
  for (const Term& term : terms)
    if (dsl::equal(term.atom, atom)) return term.coefficient;
  return 0;
}

Affine to_affine(const Expr& expr) {
  Affine affine;
  affine.terms.reserve(4);
  split_sum(expr, 1, affine.constant,
            [&](const Expr& atom, int64_t coefficient) { affine.add(atom, coefficient); });
  return affine;
}

void rejoin_digits(Affine& affine) {
  for (size_t i = 0; i < affine.terms.size(); ++i) {
    const Binary* modulo = affine.terms[i].atom.as<Binary>();
    if (!modulo || modulo->op != BinaryOp::Mod) continue;
    const auto w = dsl::as_int(modulo->b);
    if (!w) continue;
    const int64_t c = affine.terms[i].coefficient;
    const Expr whole = modulo->a, part = affine.terms[i].atom;
    const Expr quotient = whole / Expr(*w);
    const int64_t whole_coefficient = wrapping_sum(0, c, *w);
    if (affine.coefficient(quotient) != whole_coefficient) continue;
    affine.add(quotient, wrapping_sum(0, -1, whole_coefficient));
    affine.add(part, -c);
    affine.add(to_affine(whole), c);
    i = static_cast<size_t>(-1);
  }
}

namespace {

/// A minimum that equals e if scale * e <= limit, or a maximum that equals e if scale * e >= limit.
struct Limit {
  Expr e;
  BinaryOp op = BinaryOp::Min;
  int64_t scale = 1, limit = 0;
};

/// Recognises min(e, 9), which equals e if e <= 9, and min(e, 9 - e), which equals e if 2 e <= 9;
/// also the maxima of this form. Returns nullopt for any other expression.
std::optional<Limit> limit_of(const Expr& index) {
  const Binary* b = index.as<Binary>();
  if (!b || (b->op != BinaryOp::Min && b->op != BinaryOp::Max)) return std::nullopt;
  if (const auto literal = dsl::as_int(b->a)) return Limit{b->b, b->op, 1, *literal};
  if (const auto literal = dsl::as_int(b->b)) return Limit{b->a, b->op, 1, *literal};
  Affine sum = to_affine(b->a);
  sum.add(to_affine(b->b));
  if (!sum.is_constant()) return std::nullopt;
  return Limit{b->a, b->op, 2, sum.constant};
}

}  // namespace

Unclamped unclamp(const Expr& index) {
  Unclamped result{index, {}};
  std::vector<Limit> limits;
  while (const auto limit = limit_of(result.index)) {
    limits.push_back(*limit);
    result.index = limit->e;
  }
  for (const Limit& limit : limits) {
    Affine room;
    room.add(to_affine(result.index), limit.scale);
    room.constant -= limit.limit;
    result.at_least_zero.push_back(limit.op == BinaryOp::Min ? negated(room) : room);
  }
  return result;
}

Expr to_expr(const Affine& affine) {
  Expr sum;
  bool constant_first = false;
  const auto append = [&](const Expr& term, bool positive) {
    if (!sum.defined()) {
      sum = positive ? term : Expr(affine.constant) - term;
      constant_first = !positive;
    } else {
      sum = positive ? sum + term : sum - term;
    }
  };
  // Positive terms come first: `x - y` rather than `0 - y + x`. If there are none, the constant
  // comes first: `1 - y`.
  for (const bool positive : {true, false})
    for (const Affine::Term& term : affine.terms)
      if ((term.coefficient > 0) == positive)
        append(magnitude(term.coefficient) == 1 ? term.atom
                                                : term.atom * Expr(magnitude(term.coefficient)),
               positive);
  if (!sum.defined()) return Expr(affine.constant);
  if (affine.constant == 0 || constant_first) return sum;
  return affine.constant > 0 ? sum + Expr(affine.constant) : sum - Expr(magnitude(affine.constant));
}

std::vector<Expr> alternatives(const Expr& expr, BinaryOp max_or_min) {
  const Binary* b = expr.as<Binary>();
  if (!b || b->op != max_or_min) return {expr};
  std::vector<Expr> all = alternatives(b->a, max_or_min);
  for (const Expr& other : alternatives(b->b, max_or_min)) all.push_back(other);
  return all;
}

Affine linear_address(const std::vector<int64_t>& extents, const std::vector<Expr>& indices) {
  Affine address;
  for (size_t d = 0; d < indices.size(); ++d) {
    Affine next;
    next.add(address, extents[d]);
    next.add(to_affine(indices[d]));
    address = std::move(next);
  }
  return address;
}

Constraints split_condition(const Expr& condition) {
  Constraints constraints;
  dsl::for_each_conjunct(condition,
                         [&](const Expr& conjunct) { add_conjunct(conjunct, constraints); });
  return constraints;
}

Expr to_condition(const Affine& at_least_zero) {
  // Writes 0 <= a with the negative terms of `a` on the left side: `x + 3 <= n` for a = n - x - 3.
  Affine left, right;
  for (const Affine::Term& term : at_least_zero.terms) {
    Affine& side = term.coefficient < 0 ? left : right;
    side.add(term.atom, magnitude(term.coefficient));
  }
  (at_least_zero.constant < 0 ? left : right).constant += magnitude(at_least_zero.constant);
  return to_expr(left) <= to_expr(right);
}

}  // namespace tw::schedules
