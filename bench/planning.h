// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the time of planning whole networks. A scheme is one way to run an operator, with its
// layouts and its time. Planning finds the cheapest combination of schemes. Its measured time
// begins when the schemes are known, and ends when a plan is proved to be the cheapest. Also
// measures the solver alone, on random series-parallel networks. No kernel is built or run.
// Thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/plan.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

/// The times of planning one graph. Each time is the smallest of all rounds, except predicting_s.
struct Planning {
  std::string name;
  size_t operators = 0, schemes = 0;
  double predicting_s = 0;   ///< predicting all schemes and copies; 0 if it was not measured
  double plan_s = 0;         ///< finding the cheapest plan
  double three_plans_s = 0;  ///< finding the three cheapest plans
  /// Time of graph::cheapest_with(), which finds for each scheme how much faster it would have to
  /// be to enter the plan.
  double marginals_s = 0;
  bool is_optimal = false;
  double gap = 0;  ///< share by which the plan may cost more than the cheapest one
};

/// Measures the planning of one graph. `schemes` has the schemes of each operator, and
/// `transform_cost` gives the time of copies between layouts. Fails with the errors of
/// make_plans(). Requires: rounds >= 1.
Result<Planning> measure_planning(const graph::Graph& graph,
                                  const std::vector<std::vector<graph::Scheme>>& schemes,
                                  const graph::TransformCost& transform_cost, int64_t rounds,
                                  const tuner::Clock& clock);

/// The time of solving a random series-parallel network of `nodes` variables, each of which has
/// `states` states.
struct Solving {
  size_t nodes = 0, states = 0, factors = 0;
  double solve_s = 0;  ///< the smallest time of all rounds
  bool is_optimal = false;
};
/// Measures the solver on one random network. Requires: nodes >= 2, states >= 1, rounds >= 1.
Solving measure_solving(size_t nodes, size_t states, uint64_t seed, int64_t rounds,
                        const tuner::Clock& clock);

nlohmann::json planning_json(const std::vector<Planning>& plans, const Solving& solving);
std::string planning_table(const std::vector<Planning>& plans, const Solving& solving);

}  // namespace tw::bench
