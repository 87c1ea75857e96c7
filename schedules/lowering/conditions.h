// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conditions that the passes of lower() build. Pure functions. Private to lowering.

#include <vector>

#include "dsl/expr.h"
#include "dsl/selection.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// True where all conditions hold; none: true.
inline Expr conjunction(const std::vector<Expr>& conditions) {
  Expr all = dsl::constant_int(Bool, 1);
  for (const Expr& condition : conditions) all = all && condition;
  return all;
}

/// True where one of the conditions holds; none: false.
inline Expr disjunction(const std::vector<Expr>& conditions) {
  Expr any = dsl::constant_int(Bool, 0);
  for (const Expr& condition : conditions) any = any || condition;
  return any;
}

/// True if an index chooses between parts of the expression.
inline bool has_choice(const Expr& body) {
  bool found = false;
  dsl::for_each(body, [&](const Expr& e) { found |= dsl::choosing_comparison(e) != nullptr; });
  return found;
}

}  // namespace tw::schedules
