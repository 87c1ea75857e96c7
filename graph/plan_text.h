// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prints plans: as a table of the operators and transforms in the order in which they run, and as a
// drawing. Layouts are written with the dimension letters of each operator (NCHW16c). Pure
// functions; thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "graph/plan.h"

namespace tw::graph {

/// The text about an operator's kernel in a line of the table.
struct KernelLabel {
  std::string algorithm;  ///< "direct", "winograd 4 x 4"; empty: no kernel runs
  /// The largest error of an element, relative to the largest element of the result; nullopt: the
  /// kernel was never run.
  std::optional<double> error;
};

/// Returns a table with a line for each operator and each transform, in the order in which they
/// run. A line has the layouts, the time, its share of the total, whether the time was measured,
/// the algorithm, the error and the key of the workload. Below the table are the sums, and a line
/// that says whether the plan is proved to be optimal.
///
///   operator     layouts             time   share             algorithm     error  workload
///   transform x  NCHW -> NCHW4c    1.0 µs   2.4 %
///   c            NCHW4c -> NCHW4c  30.0 µs  71.4 %  measured   winograd 2  1.2e-06  conv2d
///   y            NCHW4c -> NCHW    11.0 µs  26.2 %  predicted  direct               relu
///
///   total    42.0 µs: 41.0 µs in 2 kernels, 1.0 µs in 1 transform; 1 of 2 kernels measured
///   optimal  no other choice among these schemes is faster
///
/// `kernels` has one label for each operator. Requires: a plan for this graph and these schemes.
std::string to_text(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                    const Plan& plan, const std::vector<KernelLabel>& kernels);

/// Returns the graph in the language of Graphviz' dot. Operators and transforms are nodes with
/// their times, and tensors are edges with their layouts. Requires: a plan for this graph and these
/// schemes.
std::string to_dot(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                   const Plan& plan);

}  // namespace tw::graph
