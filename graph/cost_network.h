// SPDX-License-Identifier: Apache-2.0
#pragma once
// A CostNetwork is a weighted constraint network: variables with finitely many states, and factors,
// each of which gives a cost to the states of a few variables together. The cost of an assignment
// is the sum of its costs in all factors. A network whose factors have two variables is also known
// as a partitioned Boolean quadratic problem (PBQP). plan.h chooses layouts and kernels for a
// neural network in this form: each operator is a variable whose states are its schemes, auxiliary
// variables stand for the layouts that several readers of a tensor ask for, and factors are costs
// of copies.
//
//   CostNetwork network;
//   const size_t conv = network.add_variable({3.0, 2.5}), relu = network.add_variable({1.0, 1.0});
//   network.add_factor(conv, relu, {0.0, 0.8, 0.8, 0.0});  // 0.8 where their states differ
//   solve(network, 1).assignments[0];                      // {1, 1} at 3.5
//
// The solver eliminates one variable after another (bucket elimination: Dechter, Artificial
// Intelligence 113, 1999), each time the variable whose elimination makes the smallest table. For a
// variable that shares factors with at most two others, this is the reduction R0, R1 or R2 of
// Scholz and Eckstein (Register allocation for irregular architectures, LCTES 2002). The bucket of
// a variable holds all tables over it. A bucket whose sum would be a table above a limit is split
// into mini-buckets (Dechter and Rish, JACM 50(2), 2003). Their tables bound the cost from below
// and guide a best-first search. If no bucket was split, the bound is exact, and the search goes
// straight to the best assignments.
//
// Costs are rounded to multiples of a power of two, about 2^-50 of M, where M is the sum over all
// tables of the largest finite magnitude in the table. So no sum depends on the order of its terms.
// Build a CostNetwork in one thread. solve() is a pure function and thread-safe.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "graph/cost_table.h"

namespace tw::graph {

class CostNetwork {
 public:
  /// Adds a variable with one cost for each of its states; infinity forbids the state. Returns the
  /// number of the variable, counted from 0. Requires: at least one state; no cost is NaN or
  /// -infinity.
  size_t add_variable(std::vector<double> costs);
  /// Adds a cost for each pair of states of two variables, row-major with the states of `b`
  /// contiguous. The costs of several factors of one pair of variables add up. Requires: a != b,
  /// and as many costs as pairs of states; no cost is NaN or -infinity.
  void add_factor(size_t a, size_t b, std::vector<double> costs);

  /// Adds a factor over any number of variables: a cost for each combination of their states,
  /// row-major with the states of the last variable contiguous. Requires: distinct variables, at
  /// least one.
  void add_factor(std::vector<size_t> variables, std::vector<double> costs);

  size_t size() const { return extents_.size(); }  ///< number of variables
  /// Number of states of each variable.
  const std::vector<size_t>& extents() const { return extents_; }
  /// Costs of variables and factors, in the order in which they were added.
  const std::vector<CostTable>& tables() const { return tables_; }

  /// The sum of all costs of an assignment. Requires: a state for each variable.
  double cost(std::span<const size_t> states) const;

 private:
  std::vector<size_t> extents_;
  std::vector<CostTable> tables_;
};

struct SolverLimits {
  size_t table_elements = size_t{1} << 22;  ///< most elements of one table, 8 bytes each
  /// Most elements of all tables together that the elimination makes. If the next table would
  /// exceed this limit, smaller tables are made instead, which give a weaker bound.
  size_t total_elements = size_t{1} << 24;
  size_t nodes = 1'000'000;  ///< most partial assignments that the search expands
  /// Polled during the search; a stop ends the search as if `nodes` were used up.
  StopToken stop = {};
};

struct Assignment {
  std::vector<size_t> states;  ///< the state of each variable
  double cost = 0;
};

struct Solution {
  /// Distinct assignments of finite cost, cheapest first. If a limit ended the search, there may be
  /// fewer than were asked for.
  std::vector<Assignment> assignments;
  /// No assignment costs less than this; infinite if no assignment is allowed.
  double lower_bound = 0;
  /// True if `assignments` are proved to be the cheapest.
  bool is_optimal = false;
};

/// Finds the `count` cheapest assignments, or fewer if the limits end the search. Requires: count
/// >= 1.
Solution solve(const CostNetwork& network, size_t count, const SolverLimits& limits = {});

/// For each variable and state, the cost of the cheapest assignment that has the state (Dechter
/// 1999, section 7). nullopt if an exact elimination would exceed the limits of tables.
std::optional<std::vector<std::vector<double>>> min_marginals(const CostNetwork& network,
                                                              const SolverLimits& limits = {});

}  // namespace tw::graph
