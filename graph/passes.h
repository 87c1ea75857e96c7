// SPDX-License-Identifier: Apache-2.0
#pragma once
// Passes over graphs: pure functions that keep what the outputs are.
//
//   TW_TRY(Passed passed, apply_passes(graph, {.disabled = {"fuse_epilogues"}}));
//   passed.graph;   // each operator is one kernel
//   passed.runs;    // what each pass took, and how many operators it left
//
// Thread-safe.

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tw::graph {

struct Pass {
  std::string_view name;
  std::string_view guarantee;  ///< what holds for the graph afterwards
  Result<Graph> (*apply)(const Graph& graph);
};

/// In the order in which they run.
const std::vector<Pass>& passes();

struct PassOptions {
  std::set<std::string> disabled = {};  ///< names of passes that are left out
  /// Whether each pass is checked: all outputs on random inputs, before and after, by the
  /// interpreter. Slow: for tests and small graphs.
  bool verify = false;
  std::function<bool()> stops = [] { return false; };  ///< asked between passes
  /// Seconds since any moment, for PassRun::seconds.
  std::function<double()> clock_s = [] { return 0.0; };
};

struct PassRun {
  std::string name;
  double seconds = 0;
  size_t operators_before = 0, operators_after = 0;
};

struct Passed {
  Graph graph;
  std::vector<PassRun> runs;
};

/// Usage for a name in `disabled` that no pass has; Interrupted where `stops` said so; Internal,
/// naming the pass, where verification finds a difference.
Result<Passed> apply_passes(Graph graph, const PassOptions& options = {});

}  // namespace tw::graph
