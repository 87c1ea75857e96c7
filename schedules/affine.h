// SPDX-License-Identifier: Apache-2.0
#pragma once
// Affine normal forms of index expressions, and of the conditions that compare them. Values.

#include <cstdint>
#include <vector>

#include "base/pool_allocator.h"
#include "dsl/expr.h"

namespace tw::schedules {

using dsl::Expr;

/// constant + sum of coefficient * atom. Atoms are variables, or subexpressions that are not
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

/// Replaces c * w * (f / w) + c * (f % w) by c * f: the digits of a fused loop together.
void rejoin_digits(Affine& affine);

/// Of an element in dense row-major memory, in elements. Requires: an extent for each index.
Affine linear_address(const std::vector<int64_t>& extents, const std::vector<Expr>& indices);

/// An index min(max(e, 0), 9), in any order and depth: e, and the constraints `a >= 0` under which
/// the index is e. Without a minimum or maximum with a literal, the index itself and none.
struct Unclamped {
  Expr index;
  std::vector<Affine> at_least_zero;
};
Unclamped unclamp(const Expr& index);

/// The expressions whose max (or min) `expr` is: itself alone where it is none.
std::vector<Expr> alternatives(const Expr& expr, dsl::BinaryOp max_or_min);

/// A conjunction, split: each constraint means `affine >= 0`; what is not affine stays an
/// expression.
struct Constraints {
  std::vector<Affine> affine;
  std::vector<Expr> opaque;
};
Constraints split_condition(const Expr& condition);
Expr to_condition(const Affine& at_least_zero);

}  // namespace tw::schedules
