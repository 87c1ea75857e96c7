// SPDX-License-Identifier: Apache-2.0
#pragma once
// A CostTable is a function of the states of a few variables, as a dense array. Bucket elimination
// (cost_network.cpp) adds such functions and minimizes them over some of the variables. Plain
// values; thread-safe.

#include <cstddef>
#include <span>
#include <vector>

namespace tw::graph {

struct CostTable {
  std::vector<size_t> variables;  ///< numbers of distinct variables
  std::vector<size_t> extents;    ///< number of states of each variable
  std::vector<double> costs;      ///< row-major over the variables; infinite: not allowed

  /// The cost of the states that `states` gives to the variables. Requires: states[v] is below v's
  /// extent for each variable v of the table.
  double at(std::span<const size_t> states) const;
};

/// Adds up the tables and minimizes the sum over the variables `removed`. The result is a table
/// over the variables `kept`, in their order. `extents[v]` is the number of states of variable v.
/// Requires: each variable of a table is in exactly one of `kept` and `removed`. With n states for
/// each variable this takes O(tables n^(|kept| + |removed|)) time, and O(n^|kept|) memory besides
/// the tables.
CostTable minimized_sum(const std::vector<const CostTable*>& tables,
                        const std::vector<size_t>& kept, const std::vector<size_t>& removed,
                        const std::vector<size_t>& extents);

}  // namespace tw::graph
