// SPDX-License-Identifier: Apache-2.0
#pragma once
// Splits a graph with loops into parts without loops, so that passes need not handle loops. The
// operators outside of loops are one part, and the body of each loop is another.
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

/// A part of a graph: the body of the loop with this index in Graph::loops, or, for nullopt, the
/// operators outside of loops.
using PartNumber = std::optional<size_t>;

/// All parts of a graph.
std::vector<PartNumber> parts_of(const Graph& graph);

/// Returns the part as a graph. Its inputs are the tensors that enter the part, and its outputs are
/// the tensors that leave it. In the part outside of loops, results of loops are inputs, and
/// tensors that loops read are outputs. All other tensors of the whole graph are also inputs, which
/// nothing reads, so that passes do not use their names again. Requires: a valid graph.
Graph part_of(const Graph& graph, PartNumber number);

/// Returns the graph with part `number` replaced by `part`, which a pass has rewritten. If the pass
/// has made an output of a loop's body a constant, an operator that copies the constant is added to
/// the body. Fails as make_operator() does, and with Internal if a loop depends on its own results.
Result<Graph> with_part(const Graph& graph, PartNumber number, Graph part);

}  // namespace tw::graph
