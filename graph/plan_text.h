// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plans for people: as a table of what runs, in order, and as a drawing. Layouts are spelled in the
// letters of the operators' own computes (NCHW16c). Pure functions; thread-safe.

#include <string>
#include <vector>

#include "graph/plan.h"

namespace tw::graph {

/// A line for each operator and each transform, in the order in which they run, with layouts, time,
/// share of the whole and whether the time was measured; then the sums, and what is proved.
///
///   operator     layouts                    time   share             workload
///   transform x  NCHW -> NCHW4c           1.0 µs   2.4 %
///   c            NCHW4c -> NCHW4c        30.0 µs  71.4 %  measured   conv2d n=1 c=4 h=6 w=6 ...
///   y            NCHW4c, NCHW4c -> NCHW  11.0 µs  26.2 %  predicted  add_relu n=1 c=4 h=6 w=6 ...
///
///   total    42.0 µs: 41.0 µs in 2 kernels, 1.0 µs in 1 transform; 1 of 2 kernels measured
///   optimal  no other choice among these schemes is faster
///
/// Requires: a plan for this graph and these schemes.
std::string to_text(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                    const Plan& plan);

/// The graph in the language of Graphviz' dot: operators and transforms are nodes with their times,
/// tensors are edges with their layouts. Requires: as to_text().
std::string to_dot(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                   const Plan& plan);

}  // namespace tw::graph
