// SPDX-License-Identifier: Apache-2.0
#pragma once
// Affine normal forms of index expressions and of conditions that compare index expressions. Plain
// values.

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/integer.h"
#include "base/pool_allocator.h"
#include "dsl/expr.h"

namespace tw::schedules {

using dsl::Expr;

/// constant + sum of coefficient * atom. An atom is a variable or a subexpression that is not
/// affine. For 4 * x - x / 2 + 3 the constant is 3, and the terms are 4 * x and -1 * (x / 2).
struct Affine {
  struct Term {
    Expr atom;
    int64_t coefficient;
  };
  int64_t constant = 0;
  std::vector<Term, PoolAllocator<Term>> terms;

  /// add() adds coefficient * atom, or factor * other. Its sums and products wrap, as values of i64
  /// do.
  void add(const Expr& atom, int64_t coefficient);
  void add(const Affine& other, int64_t factor = 1);
  int64_t coefficient(const Expr& atom) const;
  bool is_constant() const { return terms.empty(); }
};

/// Returns a * b; nullopt if the product or its negative does not fit int64.
inline std::optional<int64_t> checked_factor(int64_t a, int64_t b) {
  const auto product = checked_mul(a, b);
  return product != std::numeric_limits<int64_t>::min() ? product : std::nullopt;
}

/// Splits `factor * expr` into a constant and terms: adds the constant to `constant`, and calls
/// `add(atom, coefficient)` for each term. Atoms are those of an Affine. A literal or a product
/// becomes an atom if the constant or the coefficient would overflow. Requires: `factor` is not the
/// least int64.
template <typename Add>
void split_sum(const Expr& expr, int64_t factor, int64_t& constant, const Add& add) {
  if (const auto value = dsl::as_int(expr)) {
    const auto product = checked_factor(factor, *value);
    const auto sum = product ? checked_add(constant, *product) : std::nullopt;
    if (!sum || *sum == std::numeric_limits<int64_t>::min()) return add(expr, factor);
    constant = *sum;
    return;
  }
  if (const auto* b = expr.as<dsl::Binary>()) {
    if (b->op == dsl::BinaryOp::Add || b->op == dsl::BinaryOp::Sub) {
      split_sum(b->a, factor, constant, add);
      split_sum(b->b, b->op == dsl::BinaryOp::Add ? factor : -factor, constant, add);
      return;
    }
    if (b->op == dsl::BinaryOp::Mul) {
      const auto right = dsl::as_int(b->b);
      const auto k = right ? right : dsl::as_int(b->a);
      const auto product = k ? checked_factor(factor, *k) : std::nullopt;
      if (product) return split_sum(right ? b->a : b->b, *product, constant, add);
    }
  }
  if (const auto* u = expr.as<dsl::Unary>(); u && u->op == dsl::UnaryOp::Neg)
    return split_sum(u->a, -factor, constant, add);
  add(expr, factor);
}

Affine to_affine(const Expr& expr);

Expr to_expr(const Affine& affine);

/// Joins the digits of a fused loop: replaces c * w * (f / w) + c * (f % w) by c * f. With the loop
/// `m*n` as f, 10 * (m*n / 10) + m*n % 10 becomes m*n.
void rejoin_digits(Affine& affine);

/// Returns the offset, in elements, of an element in dense row-major memory: m * 10 + n for extents
/// {6, 10} and indices {m, n}. Requires: an extent for each index.
Affine linear_address(const std::vector<int64_t>& extents, const std::vector<Expr>& indices);

/// An index without its clamps, and the constraints `a >= 0` under which this index equals the
/// clamped one:
///
///   min(max(x - 1, 0), 9)                   x - 1, if x - 1 >= 0 and 10 - x >= 0
///   min(max(x, -x), 18 - max(x, -x))        x, if 2 * x >= 0 and 18 - 2 * x >= 0 (a reflection)
///
/// Clamps may be nested in any order and depth. unclamp() returns any other index unchanged,
/// without constraints.
struct Unclamped {
  Expr index;
  std::vector<Affine> at_least_zero;
};
Unclamped unclamp(const Expr& index);

/// Returns the operands of a nested maximum: {a, b, c} for max(max(a, b), c). If `max_or_min` is
/// Min, returns those of a nested minimum. Any other expression is the only element of the list.
std::vector<Expr> alternatives(const Expr& expr, dsl::BinaryOp max_or_min);

/// The terms of a conjunction. A comparison of affine indices becomes one or two constraints `a >=
/// 0`, in `affine`; all other terms are in `opaque`. For 0 <= x && x < 8 && p, `affine` is {x, 7 -
/// x} and `opaque` is {p}. Comparisons of elements of i64 with each other or with literals are
/// opaque.
struct Constraints {
  std::vector<Affine> affine;
  std::vector<Expr> opaque;
};
Constraints split_condition(const Expr& condition);
Expr to_condition(const Affine& at_least_zero);

}  // namespace tw::schedules
