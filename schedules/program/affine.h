// SPDX-License-Identifier: Apache-2.0
#pragma once
// Affine normal forms of index expressions and of conditions that compare index expressions. Plain
// values.

#include <cstdint>
#include <vector>

#include "base/pool_allocator.h"
#include "dsl/expr.h"

namespace tw::schedules {

using dsl::Expr;

/// constant + sum of coefficient * atom. An atom is a variable or a subexpression that is not
/// affine.
struct Affine {
  struct Term {
    Expr atom;
    int64_t coefficient;
  };
  int64_t constant = 0;
  std::vector<Term, PoolAllocator<Term>> terms;

  void add(const Expr& atom, int64_t coefficient);
  void add(const Affine& other, int64_t factor = 1);
  int64_t coefficient(const Expr& atom) const;
  bool is_constant() const { return terms.empty(); }
};

Affine to_affine(const Expr& expr);

Expr to_expr(const Affine& affine);

/// Replaces c * w * (f / w) + c * (f % w) by c * f. The two terms are the digits of the fused loop
/// f.
void rejoin_digits(Affine& affine);

/// The offset, in elements, of an element in dense row-major memory. Requires: an extent for each
/// index.
Affine linear_address(const std::vector<int64_t>& extents, const std::vector<Expr>& indices);

/// An index without its clamps. A clamped index is min(max(e, 0), 9) or the like, a reflected index
/// min(max(e, -e), 18 - max(e, -e)) or the like; clamps may be nested in any order and depth.
/// unclamp() returns e, and the constraints `a >= 0` under which the index equals e. Any other
/// index is returned unchanged, without constraints.
struct Unclamped {
  Expr index;
  std::vector<Affine> at_least_zero;
};
Unclamped unclamp(const Expr& index);

/// The operands of a nested max (or min). If `expr` is no max (or min), the list has `expr` alone.
std::vector<Expr> alternatives(const Expr& expr, dsl::BinaryOp max_or_min);

/// The terms of a conjunction: affine terms as constraints `affine >= 0`, and all others as
/// expressions.
struct Constraints {
  std::vector<Affine> affine;
  std::vector<Expr> opaque;
};
Constraints split_condition(const Expr& condition);
Expr to_condition(const Affine& at_least_zero);

}  // namespace tw::schedules
