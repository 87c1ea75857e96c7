// SPDX-License-Identifier: Apache-2.0
#pragma once
// Expressions that an index chooses, terms of reductions that count under a condition only, and the
// reductions that are gathers and scatters because of it: the condition compares an axis with data,
// so for each value of the other axes one value of that axis at most has a term that counts. Pure
// functions; thread-safe.

#include <string>
#include <vector>

#include "dsl/compute.h"

namespace tw::dsl {

/// A term of a reduction that is the neutral element where `condition` fails, as the terms of a
/// convolution in the padding are.
struct GuardedTerm {
  Expr condition, value;
};

/// Splits the condition off a term. For finite w, select(c, a, 0) * w is 0 where c fails, so the
/// condition of a factor is that of the product.
GuardedTerm guarded_term(const Expr& body, const Expr& neutral);

/// The comparison of an index with a literal that chooses between two expressions:
/// select(p == 0, a, b); null for any other expression.
const Binary* choosing_comparison(const Expr& expr);

/// The axes, spatial or reduced, whose value data choose:
///
///     out[i, c] = sum(v=1000) select(index[i] == v, table[v, c], 0)    v: a gather
///     out[i, c] = sum(k=10) select(index[k] == i, update[k, c], 0)     i: a scatter
///
/// `selectors` are the axes that the selecting indices depend on, i and k in these examples. Loops
/// over them stand outside of those over the selected axes, which then run once at most. No axis is
/// in both lists. Both are empty for a stage of any other kind.
struct Selection {
  std::vector<std::string> selected, selectors;
};
Selection selection_of(const Stage& stage);

/// True if data choose elements of the result.
bool scatters(const Stage& stage);

}  // namespace tw::dsl
