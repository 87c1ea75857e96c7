// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conditions that the passes of lower() build. Pure functions. Private to lowering.

#include <vector>

#include "dsl/expr.h"
#include "dsl/selection.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Returns an expression that is true if all conditions hold; the literal true if there are none.
inline Expr conjunction(const std::vector<Expr>& conditions) {
  Expr all = dsl::constant_int(Bool, 1);
  for (const Expr& condition : conditions) all = all && condition;
  return all;
}

/// Returns an expression that is true if at least one condition holds; the literal false if there
/// are none.
inline Expr disjunction(const std::vector<Expr>& conditions) {
  Expr any = dsl::constant_int(Bool, 0);
  for (const Expr& condition : conditions) any = any || condition;
  return any;
}

/// True if the expression chooses between two values by comparing an index with a literal, as
/// select(x == 0, a, b) does (dsl::choosing_comparison).
inline bool has_choice(const Expr& body) {
  bool found = false;
  dsl::for_each(body, [&](const Expr& e) { found |= dsl::choosing_comparison(e) != nullptr; });
  return found;
}

}  // namespace tw::schedules
