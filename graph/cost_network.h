// SPDX-License-Identifier: Apache-2.0
#pragma once
// A CostNetwork is a choice among finitely many states for each of many variables, at a cost that
// is a sum of costs of few variables each: a weighted constraint network, where factors are of two
// variables also called a partitioned Boolean quadratic problem. Choosing layouts and kernels for a
// whole network is one: a variable for each operator (its states are the schemes to run it) and for
// the layouts that readers of a tensor ask for together, and factors for the copies.
//
//   CostNetwork network;
//   const size_t conv = network.add_variable({3.0, 2.5}), relu = network.add_variable({1.0, 1.0});
//   network.add_factor(conv, relu, {0.0, 0.8, 0.8, 0.0});  // 0.8 where their states differ
//   solve(network, 1).assignments[0];                      // {1, 1} at 3.5
//
// Variables are eliminated one by one (bucket elimination: Dechter, Artificial Intelligence 113,
// 1999), the one first that leaves the smallest table. Where a variable has at most two neighbours
// this is R0, R1 or R2 of Scholz and Eckstein (Register allocation for irregular architectures,
// LCTES 2002). A bucket whose table would exceed a limit becomes several mini-buckets (Dechter and
// Rish, JACM 50(2), 2003), which bound the cost from below and guide a best-first search; where no
// bucket does, the bound is exact and the search walks straight to the best assignments.
//
// Costs are rounded to multiples of a power of two, 2^-50 of the sum of their largest magnitudes,
// so that no sum depends on the order of its terms. A CostNetwork is built by one thread; solving
// is a pure function, thread-safe.

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
  /// A variable with one cost for each of its states; infinity: the state is not allowed. Returns
  /// its number, counted from 0. Requires: at least one state; no cost is NaN or -infinity.
  size_t add_variable(std::vector<double> costs);
  /// Costs of the states of two variables together, row-major with the states of `b` contiguous.
  /// Several factors of one pair add up. Requires: a != b, and as many costs as pairs of states; no
  /// cost is NaN or -infinity.
  void add_factor(size_t a, size_t b, std::vector<double> costs);

  /// The same for any number of variables, row-major with the states of the last one contiguous.
  /// Requires: distinct variables, at least one.
  void add_factor(std::vector<size_t> variables, std::vector<double> costs);

  size_t size() const { return extents_.size(); }  ///< number of variables
  /// Number of states of each variable.
  const std::vector<size_t>& extents() const { return extents_; }
  const std::vector<CostTable>& tables() const { return tables_; }  ///< as they were added

  /// The sum of all costs of an assignment. Requires: a state for each variable.
  double cost(std::span<const size_t> states) const;

 private:
  std::vector<size_t> extents_;
  std::vector<CostTable> tables_;
};

struct SolverLimits {
  size_t table_elements = size_t{1} << 22;  ///< most elements of one table, 8 bytes each
  /// Most elements of all tables together that the elimination makes. Where one would exceed it,
  /// smaller tables are made, whose bound is weaker.
  size_t total_elements = size_t{1} << 24;
  size_t nodes = 1'000'000;  ///< most partial assignments that the search expands
  StopToken stop = {};  ///< asked during the search; a stop ends it as if its nodes were used up
};

struct Assignment {
  std::vector<size_t> states;  ///< the state of each variable
  double cost = 0;
};

struct Solution {
  /// Distinct assignments of finite cost, cheapest first. If a limit ended the search, there may be
  /// fewer than were asked for.
  std::vector<Assignment> assignments;
  /// No assignment costs less; infinite where none is allowed.
  double lower_bound = 0;
  /// True if `assignments` are proved to be the cheapest.
  bool is_optimal = false;
};

/// The `count` cheapest assignments, as far as the limits allow to find them. Requires: count >= 1.
Solution solve(const CostNetwork& network, size_t count, const SolverLimits& limits = {});

/// For each variable and state, the cost of the cheapest assignment that has the state (Dechter
/// 1999, section 7). nullopt if an exact elimination would exceed the limits of tables.
std::optional<std::vector<std::vector<double>>> min_marginals(const CostNetwork& network,
                                                              const SolverLimits& limits = {});

}  // namespace tw::graph
