// SPDX-License-Identifier: Apache-2.0
#pragma once
// The loops around a statement of a program, and the average number of iterations of each loop. A
// loop that is trimmed at the border of a tensor (`for ky in max(0, 1 - y)..min(3, 57 - y)`) makes
// a different number of iterations for each y. The average is over all iterations of the outer
// loops if these are few, else over a sample of them. The sample is the same in each run, so equal
// programs give equal numbers. Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/expr.h"
#include "schedules/program/program.h"

namespace tw::cost_model::facts {

/// A loop around a statement, or a task axis (a loop whose iterations threads share).
struct Level {
  std::string variable;
  dsl::Expr begin, end;
  schedules::LoopKind kind = schedules::LoopKind::Serial;
  bool is_task_axis = false;
  double trips = 1;       ///< mean number of iterations, over all points of the levels around
  double most_trips = 1;  ///< largest number of iterations at any of these points
  bool has_literal_bounds = true;
  double first = 0;  ///< value of `begin` if the bounds are literals, else 0
};

/// Makes a level. Computes its trips from its bounds and from `outer`, the levels around it,
/// outermost first. If the bounds depend on data and `end` - `begin` is constant, the trips are
/// this difference. If it is not constant, the trips are 0. For example, a loop from index[i] to
/// index[i] + 3 has 3 trips.
Level make_level(const std::vector<Level>& outer, std::string variable, dsl::Expr begin,
                 dsl::Expr end, schedules::LoopKind kind);

/// Returns the share of the iterations of the loops `outer` in which the condition is true. Returns
/// 0.5 for a condition that depends on data.
double probability(const std::vector<Level>& outer, const dsl::Expr& condition);

}  // namespace tw::cost_model::facts
