// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/simplify.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/integer.h"
#include "schedules/program/affine.h"

namespace tw::schedules {

using dsl::Binary;
using dsl::BinaryOp;

namespace {

struct Divided {
  Affine quotient, remainder;
};

/// Finds quotient and remainder such that a = k * quotient + remainder and 0 <= remainder < k is
/// proved; nullopt if there is no proof.
std::optional<Divided> divide(const Affine& a, int64_t k, const Bounds& bounds) {
  Divided d;
  d.quotient.constant = floor_div(a.constant, k);
  d.remainder.constant = floor_mod(a.constant, k);
  for (const Affine::Term& term : a.terms)
    if (term.coefficient % k == 0) {
      d.quotient.add(term.atom, term.coefficient / k);
    } else {
      d.remainder.add(term.atom, term.coefficient);
    }
  const auto whole = bounds.quotient(d.remainder, k);
  if (!whole) return std::nullopt;
  d.quotient.constant += *whole;
  d.remainder.constant -= *whole * k;
  return d;
}

/// A numerator that is divided by `factor`.
struct Reduced {
  Divided numerator;
  int64_t factor;
};

/// Divides the numerator of a / k by the largest factor of k for which some terms are multiples of
/// the factor and the other terms are proved to be its remainder: (16 * x + 8 * y + z) / 48 is
/// (2 * x + y) / 6 for z in 0..8. Returns nullopt if there is no such factor.
std::optional<Reduced> reduce(const Affine& a, int64_t k, const Bounds& bounds) {
  std::vector<int64_t> factors;
  for (const Affine::Term& term : a.terms)
    if (const int64_t factor = std::gcd(term.coefficient % k, k); factor > 1)
      factors.push_back(factor);
  std::ranges::sort(factors, std::greater());
  for (const int64_t factor : factors)
    if (auto divided = divide(a, factor, bounds); divided && !divided->remainder.is_constant())
      return Reduced{std::move(*divided), factor};
  return std::nullopt;
}

/// Returns a / k or a mod k of i64, with a reduced numerator; nullopt for any other expression, and
/// if the numerator cannot be reduced.
/// For a = f n + z, where f divides k and 0 <= z < f: floor(a / k) = floor(n / (k / f)), and
/// a mod k = f (n mod (k / f)) + z.
std::optional<Affine> reduced_division(const Expr& division, const Bounds& bounds) {
  const Binary* b = division.as<Binary>();
  if (!b || (b->op != BinaryOp::Div && b->op != BinaryOp::Mod) || division.type() != Int64)
    return std::nullopt;
  const auto k = dsl::as_int(b->b);
  const Affine a = to_affine(b->a);
  if (!k || *k <= 0 || bounds.may_wrap(a)) return std::nullopt;
  const auto reduced = reduce(a, *k, bounds);
  if (!reduced) return std::nullopt;
  const auto& [numerator, factor] = *reduced;
  const bool is_mod = b->op == BinaryOp::Mod;
  Affine result = is_mod ? numerator.remainder : Affine();
  result.add(dsl::binary(b->op, to_expr(numerator.quotient), Expr(*k / factor)),
             is_mod ? factor : 1);
  return result;
}

Expr simplify_division(const Binary& b, const Bounds& bounds) {
  const Expr a = simplify(b.a, bounds);
  const auto k = dsl::as_int(b.b);
  if (!k || *k <= 0) return dsl::binary(b.op, a, simplify(b.b, bounds));
  const Affine affine = to_affine(a);
  if (bounds.may_wrap(affine)) return dsl::binary(b.op, a, Expr(*k));
  if (const auto d = divide(affine, *k, bounds))
    return to_expr(b.op == BinaryOp::Div ? d->quotient : d->remainder);
  if (b.op == BinaryOp::Div) {
    // floor((k q + r) / k) = q + floor(r / k)
    Affine quotient, remainder;
    remainder.constant = affine.constant;
    for (const Affine::Term& term : affine.terms)
      (term.coefficient % *k == 0 ? quotient : remainder)
          .add(term.atom, term.coefficient % *k == 0 ? term.coefficient / *k : term.coefficient);
    if (!quotient.terms.empty() && !bounds.may_wrap(remainder))
      return to_expr(quotient) + dsl::binary(BinaryOp::Div, to_expr(remainder), Expr(*k));
  } else {
    Affine remainder;
    remainder.constant = floor_mod(affine.constant, *k);
    for (const Affine::Term& term : affine.terms)
      if (term.coefficient % *k != 0) remainder.add(term.atom, term.coefficient);
    if (!bounds.may_wrap(remainder))
      return dsl::binary(BinaryOp::Mod, to_expr(remainder), Expr(*k));
  }
  return dsl::binary(b.op, a, Expr(*k));
}

/// Simplifies the operands first. Many become literals, whose comparison needs no proof.
Expr simplify_comparison(const Binary& b, const Bounds& bounds) {
  const Expr condition = dsl::binary(b.op, simplify(b.a, bounds), simplify(b.b, bounds));
  if (dsl::as_int(condition)) return condition;
  if (bounds.proves(condition)) return dsl::constant_int(Bool, 1);
  if (bounds.refutes(condition)) return dsl::constant_int(Bool, 0);
  return condition;
}

/// Simplifies min(a, b, ...) and max(a, b, ...). Leaves out operands of a minimum that are proved
/// to be no less than another operand, and operands of a maximum that are proved to be no greater.
Expr simplify_minmax(const Binary& b, const Bounds& bounds) {
  const Expr x = simplify(b.a, bounds), y = simplify(b.b, bounds);
  if (is_float(x.type())) return dsl::binary(b.op, x, y);
  std::vector<Expr> all = alternatives(x, b.op), kept;
  for (const Expr& other : alternatives(y, b.op)) all.push_back(other);
  for (const Expr& candidate : all) {
    const auto covers = [&](const Expr& a, const Expr& other) {
      return bounds.proves(b.op == BinaryOp::Min ? a <= other : other <= a);
    };
    if (std::any_of(kept.begin(), kept.end(), [&](const Expr& k) { return covers(k, candidate); }))
      continue;
    std::erase_if(kept, [&](const Expr& k) { return covers(candidate, k); });
    kept.push_back(candidate);
  }
  Expr result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = dsl::binary(b.op, result, kept[i]);
  return result;
}

/// Simplifies an atom that is no variable. A product of two atoms stays as it is.
Expr simplify_term(const Expr& atom, const Bounds& bounds) {
  const Binary* b = atom.as<Binary>();
  if (!b || b->op != BinaryOp::Mul) return simplify(atom, bounds);
  return dsl::binary(b->op, simplify(b->a, bounds), simplify(b->b, bounds));
}

Expr simplify_affine(const Expr& expr, const Bounds& bounds) {
  Affine sum;
  const Affine raw = to_affine(expr);
  sum.constant = raw.constant;
  sum.terms.reserve(raw.terms.size());
  for (const Affine::Term& term : raw.terms)
    if (term.atom.as<dsl::Var>()) {
      sum.add(term.atom, term.coefficient);
    } else {
      sum.add(to_affine(simplify_term(term.atom, bounds)), term.coefficient);
    }
  rejoin_digits(sum);
  return to_expr(sum);
}

Expr simplify_binary(const Expr& expr, const Binary& b, const Bounds& bounds) {
  switch (b.op) {
    case BinaryOp::Div:
    case BinaryOp::Mod:
      if (expr.type() == Int64) return simplify_division(b, bounds);
      break;
    case BinaryOp::Min:
    case BinaryOp::Max:
      return simplify_minmax(b, bounds);
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
      if (expr.type() == Int64) return simplify_affine(expr, bounds);
      break;
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::Eq:
    case BinaryOp::Ne:
      return simplify_comparison(b, bounds);
    case BinaryOp::And:
    case BinaryOp::Or:
    case BinaryOp::Pow:
    case BinaryOp::Shl:
    case BinaryOp::Shr:
    case BinaryOp::BitAnd:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor:
      break;
  }
  return dsl::binary(b.op, simplify(b.a, bounds), simplify(b.b, bounds));
}

}  // namespace

Expr simplify(const Expr& expr, const Bounds& bounds) {
  return dsl::visit(
      expr, [&](const Binary& b) { return simplify_binary(expr, b, bounds); },
      [&](const dsl::Select& s) {
        return dsl::select(simplify(s.condition, bounds), simplify(s.a, bounds),
                           simplify(s.b, bounds));
      },
      [&](const dsl::Read& r) {
        std::vector<Expr> indices;
        for (const Expr& index : r.indices) indices.push_back(simplify(index, bounds));
        return dsl::read(r.tensor, std::move(indices), r.type, r.source);
      },
      [&](const dsl::Cast& c) { return dsl::cast(c.type, simplify(c.a, bounds)); },
      [&](const dsl::Unary& u) { return dsl::unary(u.op, simplify(u.a, bounds)); },
      [&](const dsl::Const&) { return expr; }, [&](const dsl::Var&) { return expr; });
}

Affine reduce_divisions(const Affine& affine, const Bounds& bounds) {
  Affine result;
  result.constant = affine.constant;
  for (const Affine::Term& term : affine.terms)
    if (const auto reduced = reduced_division(term.atom, bounds)) {
      result.add(*reduced, term.coefficient);
    } else {
      result.add(term.atom, term.coefficient);
    }
  return result;
}

}  // namespace tw::schedules
