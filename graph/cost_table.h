// SPDX-License-Identifier: Apache-2.0
#pragma once
// A CostTable has one cost for each combination of the states of a few variables, as a dense array.
// Bucket elimination (cost_network.cpp) adds tables and minimizes the sum over some of the
// variables. Plain values; thread-safe.

#include <cstddef>
#include <span>
#include <vector>

namespace tw::graph {

struct CostTable {
  std::vector<size_t> variables;  ///< indices of variables, each once
  std::vector<size_t> extents;    ///< number of states of each variable
  std::vector<double> costs;      ///< row-major over the variables; infinite: not allowed

  /// Returns the entry of the table for an assignment that gives variable v the state states[v].
  /// Variables that the table does not have are ignored. Requires: states[v] is below v's extent
  /// for each variable v of the table.
  double at(std::span<const size_t> states) const;
};

/// Adds the tables and minimizes the sum over the variables `removed`. The result is a table over
/// the variables `kept`, in their order. With a table f over (x, y), a table g over (y, z), kept =
/// {x, z} and removed = {y}:
///
///   result(x, z) = min over all states of y of f(x, y) + g(y, z)
///
/// `extents[v]` is the number of states of variable v. Requires: each variable of a table is in
/// exactly one of `kept` and `removed`. If each variable has n states, this takes O(|tables|
/// n^(|kept| + |removed|)) time, and O(n^|kept|) memory besides the tables.
CostTable minimized_sum(const std::vector<const CostTable*>& tables,
                        const std::vector<size_t>& kept, const std::vector<size_t>& removed,
                        const std::vector<size_t>& extents);

}  // namespace tw::graph
