// SPDX-License-Identifier: Apache-2.0
#include "graph/cost_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace tw::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> random_costs(Random& random, size_t count, double forbidden) {
  std::vector<double> costs;
  for (size_t i = 0; i < count; ++i)
    costs.push_back(random.chance(forbidden) ? infinity : 100 * random.unit() - 20);
  return costs;
}

void add_random_factor(Random& random, CostNetwork& network, size_t a, size_t b, double forbidden) {
  const size_t pairs = network.extents()[a] * network.extents()[b];
  network.add_factor(a, b, random_costs(random, pairs, forbidden));
}

/// Returns a network with up to 6 variables of up to 4 states. Any two variables may have a factor,
/// or two. Some states and pairs of states may be forbidden. Some costs are small integers, so that
/// assignments tie.
CostNetwork random_network(Random& random) {
  CostNetwork network;
  const double forbidden = random.chance(0.5) ? 0.2 * random.unit() : 0;
  const double density = random.unit();
  const int64_t variables = 1 + random.below(6);
  for (int64_t v = 0; v < variables; ++v)
    network.add_variable(random_costs(random, static_cast<size_t>(1 + random.below(4)), forbidden));
  for (size_t a = 0; a < network.size(); ++a)
    for (size_t b = 0; b < network.size(); ++b)
      if (a != b && random.chance(density)) add_random_factor(random, network, a, b, forbidden);
  return network;
}

/// Returns all assignments of finite cost, the cheapest first.
std::vector<Assignment> brute_force(const CostNetwork& network) {
  std::vector<Assignment> all;
  std::vector<size_t> states(network.size());
  while (true) {
    if (const double cost = network.cost(states); std::isfinite(cost))
      all.push_back({states, cost});
    size_t v = 0;
    while (v < states.size() && ++states[v] == network.extents()[v]) states[v++] = 0;
    if (v == states.size()) break;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Assignment& a, const Assignment& b) { return a.cost < b.cost; });
  return all;
}

void expect_cheapest(const CostNetwork& network, const Solution& solution,
                     const std::vector<Assignment>& all, size_t count) {
  ASSERT_TRUE(solution.is_optimal);
  ASSERT_EQ(solution.assignments.size(), std::min(count, all.size()));
  for (size_t i = 0; i < solution.assignments.size(); ++i) {
    const Assignment& found = solution.assignments[i];
    EXPECT_NEAR(found.cost, all[i].cost, 1e-9);
    EXPECT_EQ(found.cost, network.cost(found.states));
    for (size_t j = 0; j < i; ++j) EXPECT_NE(found.states, solution.assignments[j].states);
  }
  if (all.empty())
    EXPECT_EQ(solution.lower_bound, infinity);
  else
    EXPECT_NEAR(solution.lower_bound, all[0].cost, 1e-9);
}

TEST(CostNetwork, SolvesTheExampleOfItsHeader) {
  CostNetwork network;
  const size_t conv = network.add_variable({3.0, 2.5});
  const size_t relu = network.add_variable({1.0, 1.0});
  network.add_factor(conv, relu, {0.0, 0.8, 0.8, 0.0});
  const Solution solution = solve(network, 3);
  ASSERT_EQ(solution.assignments.size(), 3u);
  EXPECT_EQ(solution.assignments[0].states, (std::vector<size_t>{1, 1}));
  EXPECT_DOUBLE_EQ(solution.assignments[0].cost, 3.5);
  EXPECT_DOUBLE_EQ(solution.assignments[1].cost, 4.0);
  EXPECT_DOUBLE_EQ(solution.assignments[2].cost, 4.3);
}

TEST(CostNetwork, EqualsBruteForceOn10000RandomNetworks) {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    const CostNetwork network = random_network(random);
    const std::vector<Assignment> all = brute_force(network);
    const auto count = static_cast<size_t>(1 + random.below(6));
    SCOPED_TRACE(i);
    expect_cheapest(network, solve(network, count), all, count);
    if (HasFatalFailure()) return;
  }
}

TEST(CostNetwork, EqualsBruteForceWithMiniBuckets) {
  Random random(2);
  for (int i = 0; i < 3'000; ++i) {
    const CostNetwork network = random_network(random);
    SolverLimits limits;
    limits.table_elements = static_cast<size_t>(1 + random.below(8));
    SCOPED_TRACE(i);
    expect_cheapest(network, solve(network, 3, limits), brute_force(network), 3);
    if (HasFatalFailure()) return;
  }
}

/// Factors have three variables here. In some cases the elements of each table, or of all tables
/// together, are limited.
TEST(CostNetwork, FactorsMayHaveAnyNumberOfVariables) {
  Random random(8);
  for (int i = 0; i < 1'000; ++i) {
    CostNetwork network = random_network(random);
    if (network.size() < 3) continue;
    std::vector<size_t> variables(network.size());
    std::iota(variables.begin(), variables.end(), size_t{0});
    random.shuffle(variables);
    variables.resize(3);
    size_t elements = 1;
    for (const size_t v : variables) elements *= network.extents()[v];
    network.add_factor(variables, random_costs(random, elements, 0.3));
    SolverLimits limits;
    if (random.chance(0.3)) limits.table_elements = 4;
    if (random.chance(0.3)) limits.total_elements = static_cast<size_t>(random.below(40));
    SCOPED_TRACE(i);
    expect_cheapest(network, solve(network, 4, limits), brute_force(network), 4);
    if (HasFatalFailure()) return;
  }
}

/// Two hubs have the same 12 neighbours. If a hub were eliminated first, the result would be a
/// table over all of these.
TEST(CostNetwork, HubsAreEliminatedLast) {
  Random random(10);
  CostNetwork network;
  for (size_t hub = 0; hub < 2; ++hub) network.add_variable(random_costs(random, 60, 0));
  for (size_t v = 2; v < 14; ++v) {
    network.add_variable(random_costs(random, 6, 0));
    for (size_t hub = 0; hub < 2; ++hub) add_random_factor(random, network, hub, v, 0);
  }
  SolverLimits limits;
  limits.table_elements = 60 * 60;
  EXPECT_TRUE(min_marginals(network, limits));
}

/// Variables with 50 states alternate with variables with 3. A variable has factors with those of
/// the other kind at distances 1, 3 and 5.
TEST(CostNetwork, VariablesWithManyStatesAreEliminatedFirst) {
  Random random(11);
  CostNetwork network;
  for (size_t v = 0; v < 30; ++v) {
    network.add_variable(random_costs(random, v % 2 == 0 ? 3 : 50, 0));
    for (const size_t distance : {1, 3, 5})
      if (v >= distance) add_random_factor(random, network, v - distance, v, 0);
  }
  SolverLimits limits;
  limits.table_elements = 20'000;  // 50^3 states of three of the large ones are more
  EXPECT_TRUE(min_marginals(network, limits));
}

TEST(CostNetwork, MinMarginalsEqualBruteForce) {
  Random random(3);
  for (int i = 0; i < 3'000; ++i) {
    const CostNetwork network = random_network(random);
    std::vector<std::vector<double>> expected;
    for (const size_t extent : network.extents()) expected.emplace_back(extent, infinity);
    for (const Assignment& assignment : brute_force(network))
      for (size_t v = 0; v < network.size(); ++v) {
        double& least = expected[v][assignment.states[v]];
        least = std::min(least, assignment.cost);
      }
    const auto marginals = min_marginals(network);
    ASSERT_TRUE(marginals);
    for (size_t v = 0; v < network.size(); ++v)
      for (size_t s = 0; s < expected[v].size(); ++s) {
        if (std::isinf(expected[v][s]))
          EXPECT_EQ((*marginals)[v][s], infinity) << i;
        else
          EXPECT_NEAR((*marginals)[v][s], expected[v][s], 1e-9) << i;
      }
  }
}

TEST(CostNetwork, ACheaperEntryNeverMakesTheBestDearer) {
  Random random(4);
  for (int i = 0; i < 500; ++i) {
    const CostNetwork network = random_network(random);
    const double before = solve(network, 1).lower_bound;
    CostNetwork cheaper;
    const auto changed = static_cast<size_t>(random.below(static_cast<int64_t>(network.size())));
    for (size_t v = 0; v < network.size(); ++v) {
      std::vector<double> costs = network.tables()[v].variables.size() == 1
                                      ? network.tables()[v].costs
                                      : std::vector<double>{};
      ASSERT_FALSE(costs.empty());  // variables were added before factors
      if (v == changed)
        costs[static_cast<size_t>(random.below(static_cast<int64_t>(costs.size())))] -= 30;
      cheaper.add_variable(costs);
    }
    for (size_t t = network.size(); t < network.tables().size(); ++t)
      cheaper.add_factor(network.tables()[t].variables[0], network.tables()[t].variables[1],
                         network.tables()[t].costs);
    EXPECT_LE(solve(cheaper, 1).lower_bound, before + 1e-9);
  }
}

TEST(CostNetwork, WithoutVariablesCostsNothing) {
  const Solution solution = solve(CostNetwork{}, 2);
  ASSERT_EQ(solution.assignments.size(), 1u);
  EXPECT_EQ(solution.assignments[0].cost, 0);
  EXPECT_TRUE(min_marginals(CostNetwork{})->empty());
}

TEST(CostNetwork, AContradictionHasNoAssignment) {
  CostNetwork network;
  network.add_variable({1, 2});
  network.add_variable({1, 2});
  network.add_factor(0, 1, {infinity, 0, infinity, infinity});
  network.add_factor(1, 0, {0, 0, infinity, 0});
  const Solution solution = solve(network, 1);
  EXPECT_TRUE(solution.assignments.empty());
  EXPECT_TRUE(solution.is_optimal);
  EXPECT_EQ(solution.lower_bound, infinity);
  EXPECT_EQ((*min_marginals(network))[0], (std::vector<double>{infinity, infinity}));
}

TEST(CostNetwork, AChainOf10000Variables) {
  Random random(5);
  CostNetwork network;
  double least = 0;
  for (size_t v = 0; v < 10'000; ++v) {
    network.add_variable({2, 1, 3});
    least += 1;
    // Staying in a state is free, so that it is best to be in the cheapest state throughout.
    if (v > 0) network.add_factor(v - 1, v, {0, 5, 5, 5, 0, 5, 5, 5, 0});
  }
  const Solution solution = solve(network, 2);
  ASSERT_EQ(solution.assignments.size(), 2u);
  EXPECT_EQ(solution.assignments[0].cost, least);
  EXPECT_EQ(solution.assignments[1].cost, least + 6);  // the first or last one differs
}

TEST(CostNetwork, DiamondsOf30Levels) {
  Random random(6);
  CostNetwork network;
  size_t top = network.add_variable(random_costs(random, 8, 0));
  for (int level = 0; level < 30; ++level) {
    const size_t left = network.add_variable(random_costs(random, 8, 0));
    const size_t right = network.add_variable(random_costs(random, 8, 0));
    const size_t bottom = network.add_variable(random_costs(random, 8, 0));
    for (const auto& [a, b] :
         {std::pair(top, left), {top, right}, {left, bottom}, {right, bottom}, {top, bottom}})
      add_random_factor(random, network, a, b, 0);
    top = bottom;
  }
  const Solution solution = solve(network, 1);
  ASSERT_TRUE(solution.is_optimal);
  // No change of the state of one variable, or of the two variables of a factor, is better.
  std::vector<size_t> states = solution.assignments[0].states;
  for (const CostTable& table : network.tables()) {
    const std::vector<size_t> before = states;
    for (size_t e = 0; e < table.costs.size(); ++e) {
      states[table.variables[0]] = table.variables.size() == 1 ? e : e / table.extents[1];
      if (table.variables.size() == 2) states[table.variables[1]] = e % table.extents[1];
      EXPECT_GE(network.cost(states), solution.assignments[0].cost - 1e-9);
    }
    states = before;
  }
}

TEST(CostNetwork, TiesDoNotKeepTheSearchFromEnding) {
  CostNetwork network;
  for (size_t v = 0; v < 400; ++v) {
    network.add_variable({0.1, 0.1, 0.1});
    if (v >= 2) network.add_factor(v - 2, v, std::vector<double>(9, 0.3));
  }
  const Solution solution = solve(network, 50);
  EXPECT_TRUE(solution.is_optimal);
  EXPECT_EQ(solution.assignments.size(), 50u);
}

/// Returns a network with a factor for every pair of variables.
CostNetwork complete_network(size_t variables, size_t states) {
  Random random(7);
  CostNetwork network;
  for (size_t v = 0; v < variables; ++v) network.add_variable(random_costs(random, states, 0));
  for (size_t a = 0; a < variables; ++a)
    for (size_t b = a + 1; b < variables; ++b) add_random_factor(random, network, a, b, 0);
  return network;
}

TEST(CostNetwork, BeyondItsLimitsItSaysHowGoodItsAnswerIs) {
  const CostNetwork network = complete_network(24, 6);
  SolverLimits limits;
  limits.table_elements = 1'000;
  limits.nodes = 5'000;
  const Solution solution = solve(network, 1, limits);
  EXPECT_FALSE(solution.is_optimal);
  ASSERT_EQ(solution.assignments.size(), 1u);
  EXPECT_LT(solution.lower_bound, solution.assignments[0].cost);
  EXPECT_EQ(solution.assignments[0].cost, network.cost(solution.assignments[0].states));
  EXPECT_FALSE(min_marginals(network, limits));
}

// Each table by itself is within the limit of a table, but all of them together have too many
// elements.
TEST(CostNetwork, AllTablesTogetherHaveALimit) {
  CostNetwork network;
  for (int i = 0; i < 4; ++i) {
    const CostNetwork part = complete_network(4, 6);
    const size_t first = network.size();
    for (const CostTable& table : part.tables()) {
      if (table.variables.size() == 1)
        network.add_variable(table.costs);
      else
        network.add_factor(first + table.variables[0], first + table.variables[1], table.costs);
    }
  }
  SolverLimits limits;
  limits.table_elements = 216;
  EXPECT_TRUE(min_marginals(network, limits));
  limits.total_elements = 500;
  EXPECT_FALSE(min_marginals(network, limits));
  limits.nodes = 10;
  const Solution solution = solve(network, 1, limits);
  EXPECT_FALSE(solution.is_optimal);
  EXPECT_LE(solution.lower_bound, solution.assignments.at(0).cost);
}

TEST(CostNetwork, AnswersWhenItIsCancelled) {
  SolverLimits limits;
  limits.table_elements = 100;
  int64_t asked = 0;
  limits.stop = stop_at([&] { return ++asked; }, 10);
  const Solution solution = solve(complete_network(24, 6), 1, limits);
  EXPECT_FALSE(solution.is_optimal);
  EXPECT_EQ(solution.assignments.size(), 1u);
}

}  // namespace
}  // namespace tw::graph
