// SPDX-License-Identifier: Apache-2.0
#include "bench/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/random.h"
#include "graph/cost_network.h"

namespace tw::bench {
namespace {

double least_seconds(int64_t rounds, const tuner::Clock& clock, const std::function<void()>& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t start_ns = clock();
    work();
    least = std::min(least, static_cast<double>(clock() - start_ns) * 1e-9);
  }
  return least;
}

/// Returns the edges of a random series-parallel graph with `nodes` nodes. The graph begins with
/// one edge between two nodes. Each new node is put either on a random edge, which it divides into
/// two, or on a new path parallel to a random edge.
std::vector<std::pair<size_t, size_t>> series_parallel_edges(size_t nodes, Random& random) {
  std::vector<std::pair<size_t, size_t>> edges = {{0, 1}};
  for (size_t next = 2; next < nodes; ++next) {
    const auto chosen = static_cast<size_t>(random.below(static_cast<int64_t>(edges.size())));
    const auto [from, to] = edges[chosen];
    if (random.chance(0.5))
      edges[chosen] = {from, next};
    else
      edges.push_back({from, next});
    edges.push_back({next, to});
  }
  return edges;
}

std::vector<double> random_costs(size_t count, Random& random) {
  std::vector<double> costs(count);
  for (double& cost : costs) cost = random.unit();
  return costs;
}

}  // namespace

Result<Planning> measure_planning(const graph::Graph& graph,
                                  const std::vector<std::vector<graph::Scheme>>& schemes,
                                  const graph::TransformCost& transform_cost, int64_t rounds,
                                  const tuner::Clock& clock) {
  TW_TRY(const std::vector<graph::Plan> plans,
         graph::make_plans(graph, schemes, transform_cost, 1));
  Planning planning;
  planning.operators = graph.operators.size();
  for (const auto& of_operator : schemes) planning.schemes += of_operator.size();
  planning.is_optimal = plans[0].is_optimal;
  if (plans[0].predicted_ns > 0) planning.gap = 1 - plans[0].lower_bound_ns / plans[0].predicted_ns;
  const auto seconds_of = [&](const std::function<void()>& work) {
    return least_seconds(rounds, clock, work);
  };
  planning.plan_s = seconds_of([&] { (void)graph::make_plans(graph, schemes, transform_cost, 1); });
  planning.three_plans_s =
      seconds_of([&] { (void)graph::make_plans(graph, schemes, transform_cost, 3); });
  planning.marginals_s =
      seconds_of([&] { (void)graph::cheapest_with(graph, schemes, transform_cost); });
  return planning;
}

Solving measure_solving(size_t nodes, size_t states, uint64_t seed, int64_t rounds,
                        const tuner::Clock& clock) {
  Random random(seed);
  graph::CostNetwork network;
  for (size_t node = 0; node < nodes; ++node) network.add_variable(random_costs(states, random));
  const auto edges = series_parallel_edges(nodes, random);
  for (const auto& [from, to] : edges)
    network.add_factor(from, to, random_costs(states * states, random));
  Solving solving{nodes, states, edges.size()};
  solving.solve_s = least_seconds(
      rounds, clock, [&] { solving.is_optimal = graph::solve(network, 1).is_optimal; });
  return solving;
}

nlohmann::json planning_json(const std::vector<Planning>& plans, const Solving& solving) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Planning& plan : plans)
    rows.push_back({{"network", plan.name},
                    {"operators", plan.operators},
                    {"schemes", plan.schemes},
                    {"predicting_s", plan.predicting_s},
                    {"plan_ms", plan.plan_s * 1e3},
                    {"three_plans_ms", plan.three_plans_s * 1e3},
                    {"marginals_ms", plan.marginals_s * 1e3},
                    {"is_optimal", plan.is_optimal},
                    {"gap", plan.gap}});
  return {{"rows", rows},
          {"series_parallel",
           {{"nodes", solving.nodes},
            {"states", solving.states},
            {"factors", solving.factors},
            {"solve_ms", solving.solve_s * 1e3},
            {"is_optimal", solving.is_optimal}}}};
}

std::string planning_table(const std::vector<Planning>& plans, const Solving& solving) {
  std::string table =
      fmt::format("{:18}{:>10}{:>9}{:>13}{:>9}{:>9}{:>14}  {}\n", "network", "operators", "schemes",
                  "predicting s", "plan ms", "3 plans", "marginals ms", "proof");
  for (const Planning& plan : plans)
    table += fmt::format("{:18}{:10}{:9}{:13.2f}{:9.2f}{:9.2f}{:14.2f}  {}\n", plan.name,
                         plan.operators, plan.schemes, plan.predicting_s, plan.plan_s * 1e3,
                         plan.three_plans_s * 1e3, plan.marginals_s * 1e3,
                         plan.is_optimal ? "optimal" : fmt::format("gap {:.2g} %", plan.gap * 100));
  return table + fmt::format("series-parallel, {} nodes of {} states: {:.2f} ms, {}\n",
                             solving.nodes, solving.states, solving.solve_s * 1e3,
                             solving.is_optimal ? "optimal" : "not proved");
}

}  // namespace tw::bench
