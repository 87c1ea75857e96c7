// SPDX-License-Identifier: Apache-2.0
#pragma once
// Analysis of conditions in a stage's body: expressions between which an index chooses, terms of
// reductions that count only under a condition, and gathers and scatters. A gather or scatter is a
// reduction whose condition compares an axis with data, so that for given values of the other axes
// at most one value of that axis has a term that counts. Pure functions; thread-safe.

#include <string>
#include <vector>

#include "dsl/compute.h"

namespace tw::dsl {

/// A term of a reduction that has the value `value` if `condition` holds, and else is the neutral
/// element. An example are the terms of a convolution, which are 0 in the padding.
struct GuardedTerm {
  Expr condition, value;
};

/// Separates the condition of a term from its value. The condition of a factor is a condition of
/// the product: select(c, a, 0) * w is 0 if c fails, assuming that w is finite.
GuardedTerm guarded_term(const Expr& body, const Expr& neutral);

/// The comparison of an index with a literal by which an expression chooses between two others, as
/// `p == 0` in select(p == 0, a, b). Null for any other expression.
const Binary* choosing_comparison(const Expr& expr);

/// The axes, spatial or reduced, whose index is chosen by data (`selected`):
///
///     out[i, c] = sum(v=1000) select(index[i] == v, table[v, c], 0)    v: a gather
///     out[i, c] = sum(k=10) select(index[k] == i, update[k, c], 0)     i: a scatter
///
/// `selectors` are the axes on which the selecting data depend: i in the gather and k in the
/// scatter. The loops over selectors are placed outside of the loops over selected axes, which then
/// run at most once. No axis is in both lists. Both lists are empty for any other stage.
struct Selection {
  std::vector<std::string> selected, selectors;
};
Selection selection_of(const Stage& stage);

/// True if data choose the element of the result to which a term is added, as in a scatter.
bool scatters(const Stage& stage);

}  // namespace tw::dsl
