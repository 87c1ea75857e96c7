// SPDX-License-Identifier: Apache-2.0
#pragma once
// Analysis of conditions in a stage's body. guarded_term() finds the condition under which a term
// of a reduction counts. choosing_comparison() finds expressions that choose between two operands
// by the value of an index. selection_of() finds gathers and scatters. A gather or scatter is a
// reduction whose terms count only where an axis equals data, as in sum(v=1000) select(index[i] ==
// v, table[v, c], 0). So a kernel needs to visit at most one index along that axis. Pure functions;
// thread-safe.

#include <string>
#include <vector>

#include "dsl/compute.h"

namespace tw::dsl {

/// A term of a reduction. It is `value` if `condition` holds, and the neutral element of the
/// reduction otherwise. The terms of a convolution are an example: in the padding they are 0.
struct GuardedTerm {
  Expr condition, value;
};

/// Separates the condition of a term from its value. With the neutral element 0, select(c, a, 0)
/// gives {c, a}. If a factor of a product has a condition, it becomes the condition of the product:
/// select(c, a, 0) * w gives {c, a * w}, because the product is 0 if c fails and w is finite. A
/// term without a condition gives {true, body}.
GuardedTerm guarded_term(const Expr& body, const Expr& neutral);

/// Returns the comparison `p == 0` if the expression has the form select(p == 0, a, b), with any
/// literal integer in place of 0. Returns null for any other expression.
const Binary* choosing_comparison(const Expr& expr);

/// The axes of a gather or scatter. `selected` are the axes, spatial or reduced, whose index is
/// chosen by data:
///
///     out[i, c] = sum(v=1000) select(index[i] == v, table[v, c], 0)    v: a gather
///     out[i, c] = sum(k=10) select(index[k] == i, update[k, c], 0)     i: a scatter
///
/// `selectors` are the axes on which the selecting data depend: i in the gather and k in the
/// scatter. If a kernel places the loops over the selectors outside, each loop over a selected axis
/// needs at most one iteration. No axis is in both lists. For a stage that is neither a gather nor
/// a scatter, both lists are empty.
struct Selection {
  std::vector<std::string> selected, selectors;
};
Selection selection_of(const Stage& stage);

/// True if the stage is a scatter: data choose the element of the result to which a term is added.
bool scatters(const Stage& stage);

}  // namespace tw::dsl
