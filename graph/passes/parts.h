// SPDX-License-Identifier: Apache-2.0
#pragma once
// A graph with loops as parts without loops, so that a pass need not know of loops: the operators
// outside of loops are one part, and the body of each loop is one.
//
//   for (const PartNumber number : parts_of(graph)) {
//     TW_TRY(Graph part, pass.apply(part_of(graph, number)));
//     TW_TRY(graph, with_part(graph, number, std::move(part)));
//   }
//
// Private to graph/passes.cpp and graph/passes. Pure functions; thread-safe.

#include <optional>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tw::graph {

using PartNumber = std::optional<size_t>;  ///< index of the loop; nullopt: outside of loops

/// All parts of a graph.
std::vector<PartNumber> parts_of(const Graph& graph);

/// The part as a graph of its own. It has as inputs what enters it and as outputs what leaves it:
/// for operators outside of loops, what loops write and read. The other tensors of the graph are
/// further inputs, which nobody reads, so that their names are taken. Requires: a valid graph.
Graph part_of(const Graph& graph, PartNumber number);

/// The graph with the rewritten part in place of the former one. An output of a body that has
/// become a constant is copied in each trip. Fails as make_operator() does; Internal if a loop
/// depends on its own results.
Result<Graph> with_part(const Graph& graph, PartNumber number, Graph part);

}  // namespace tw::graph
