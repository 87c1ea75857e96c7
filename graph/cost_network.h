// SPDX-License-Identifier: Apache-2.0
#pragma once
// A CostNetwork is a weighted constraint network. It has variables with finitely many states, and
// factors. A factor is a table with one cost for each combination of the states of a few variables.
// An assignment gives each variable a state. The cost of the assignment is the sum, over all
// factors, of the table's entry for these states. A network whose factors all have two variables is
// also known as a partitioned Boolean quadratic problem (PBQP).
//
//   CostNetwork network;
//   const size_t conv = network.add_variable({3.0, 2.5}), relu = network.add_variable({1.0, 1.0});
//   network.add_factor(conv, relu, {0.0, 0.8, 0.8, 0.0});  // 0.8 where their states differ
//   solve(network, 1).assignments[0];                      // {1, 1} at 3.5
//
// plan.h chooses layouts and kernels for a neural network in this form. Each operator is a
// variable, whose states are its schemes (the ways to run it). An auxiliary variable says whether
// any of several readers of a tensor asks for a layout. Factors hold the costs of copies between
// layouts.
//
// The solver eliminates one variable after another (bucket elimination: Dechter, Artificial
// Intelligence 113, 1999). The next variable is always the one whose elimination makes the smallest
// table. If a variable shares factors with at most two others, its elimination is the reduction R0,
// R1 or R2 of Scholz and Eckstein (Register allocation for irregular architectures, LCTES 2002).
// Eliminating a variable adds all tables that contain the variable (its bucket) and minimizes the
// sum over the variable's states. If the resulting table would be larger than a limit, the bucket
// is split into mini-buckets, which are minimized separately (Dechter and Rish, JACM 50(2), 2003).
// The resulting tables then give only a lower bound of the cost, which guides a best-first search.
// If no bucket was split, the bound is exact, so that the search only extends partial assignments
// that belong to a cheapest assignment.
//
// The solver rounds costs to multiples of a power of two, so that sums of costs are exact and do
// not depend on the order of their terms. The power is about 2^-50 of M, where M is the sum over
// all tables of the largest finite magnitude in the table. Build a CostNetwork in one thread.
// solve() is a pure function and thread-safe.

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
  /// index of the variable, counted from 0. Requires: at least one state; no cost is NaN or
  /// -infinity.
  size_t add_variable(std::vector<double> costs);
  /// Adds a factor over two variables. costs[i * n + j] is the cost of the states i of `a` and j of
  /// `b`, where n is the number of states of `b`. The costs of several factors over the same
  /// variables add up. Requires: a != b; one cost for each pair of states; no cost is NaN or
  /// -infinity.
  void add_factor(size_t a, size_t b, std::vector<double> costs);

  /// Adds a factor over any number of variables, with a cost for each combination of their states.
  /// The costs are in row-major order: the state of the last variable varies fastest. Requires: at
  /// least one variable, each once; one cost for each combination; no cost is NaN or -infinity.
  void add_factor(std::vector<size_t> variables, std::vector<double> costs);

  size_t size() const { return extents_.size(); }  ///< number of variables
  /// Number of states of each variable.
  const std::vector<size_t>& extents() const { return extents_; }
  /// One table for each call of add_variable() and add_factor(), in the order of the calls.
  const std::vector<CostTable>& tables() const { return tables_; }

  /// Returns the cost of the assignment that gives variable v the state states[v]. Requires: a
  /// state for each variable.
  double cost(std::span<const size_t> states) const;

 private:
  std::vector<size_t> extents_;
  std::vector<CostTable> tables_;
};

struct SolverLimits {
  size_t table_elements = size_t{1} << 22;  ///< most elements of one table, 8 bytes each
  /// Limit on the total number of elements of the tables that the elimination makes. If the total
  /// would be larger, `table_elements` is halved until the total fits, which gives a weaker lower
  /// bound.
  size_t total_elements = size_t{1} << 24;
  /// The search ends once it has made this many partial assignments, whether it has visited them or
  /// not.
  size_t nodes = 1'000'000;
  /// Polled during the search. A requested stop ends the search as if `nodes` were used up.
  StopToken stop = {};
};

struct Assignment {
  std::vector<size_t> states;  ///< the state of each variable
  double cost = 0;
};

struct Solution {
  /// Distinct assignments of finite cost, cheapest first. solve() returns fewer than the `count` it
  /// was asked for if no more exist, or if a limit ended the search.
  std::vector<Assignment> assignments;
  /// Every assignment costs at least this much; infinite if no assignment has a finite cost.
  double lower_bound = 0;
  /// True if `assignments` are proved to be the cheapest, or if it is proved that there are none.
  bool is_optimal = false;
};

/// Finds the `count` cheapest assignments, or fewer if no more exist or if the limits end the
/// search. Requires: count >= 1.
Solution solve(const CostNetwork& network, size_t count, const SolverLimits& limits = {});

/// For each variable v and state s, result[v][s] is the cost of the cheapest assignment that gives
/// v the state s (Dechter 1999, section 7); infinite if every such assignment has infinite cost.
/// nullopt if exact elimination would need tables beyond `limits`.
std::optional<std::vector<std::vector<double>>> min_marginals(const CostNetwork& network,
                                                              const SolverLimits& limits = {});

}  // namespace tw::graph
