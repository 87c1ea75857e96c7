// SPDX-License-Identifier: Apache-2.0
#pragma once
// The loops around a point of a program, and the average number of iterations of each. A loop that
// is trimmed at the border of a tensor (`for ky in max(0, 1 - y)..min(3, 57 - y)`) makes a
// different number of iterations at each point of the loops around it. The average is over all
// points if they are few, else over a fixed sample, so that equal programs always give equal
// numbers. Values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/expr.h"
#include "schedules/program/program.h"

namespace tw::cost_model::facts {

/// One loop or task axis in scope.
struct Level {
  std::string variable;
  dsl::Expr begin, end;
  schedules::LoopKind kind = schedules::LoopKind::Serial;
  bool is_task_axis = false;
  double trips = 1;       ///< mean number of iterations over the levels around
  double most_trips = 1;  ///< largest number of iterations at a point
  bool has_literal_bounds = true;
  double first = 0;  ///< begin, if the bounds are literals
};

/// Makes a level, and computes its trips from its bounds and the levels around it, outermost first.
/// A bound that is not integer arithmetic over `outer` gives zero iterations.
Level make_level(const std::vector<Level>& outer, std::string variable, dsl::Expr begin,
                 dsl::Expr end, schedules::LoopKind kind);

/// Returns the fraction of the points of `outer` at which the condition holds; 0.5 for a condition
/// that depends on data.
double probability(const std::vector<Level>& outer, const dsl::Expr& condition);

}  // namespace tw::cost_model::facts
