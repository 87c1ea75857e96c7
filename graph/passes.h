// SPDX-License-Identifier: Apache-2.0
#pragma once
// Passes over graphs: pure functions that rewrite a graph and keep the values of its outputs, up to
// the roundings that PassOptions::precision asks for. A pass sees a graph without loops: it is
// applied to the operators outside of loops, and to the body of each loop, as graphs of their own.
//
//   TW_TRY(Passed passed, apply_passes(graph, {.disabled = {"fuse_epilogues"}}));
//   passed.graph;   // each operator is one kernel
//   passed.runs;    // the time of each pass, and the number of operators that it left
//
// Thread-safe.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "graph/graph.h"

namespace tw::graph {

/// Computes the outputs of a workload by a kernel. Takes an array for each input, by its name.
using Evaluate =
    std::function<Result<dsl::Arrays>(const dsl::Workload& workload, const dsl::Arrays& inputs)>;

struct PassOptions {
  std::set<std::string> disabled = {};  ///< names of passes that are left out
  /// Check each pass: the interpreter computes all outputs on random inputs before and after it.
  /// Slow, for tests and small graphs.
  bool verify = false;
  /// Strict makes all operators strict, so that passes change no rounding; Fast leaves each as it
  /// is.
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;
  /// Products of f32 read floats of this type of 16 bits where the target gains by that; nullopt:
  /// they read f32.
  std::optional<DType> precision = std::nullopt;
  /// Types of which the target has dot products, or tensor tiles: floats of 16 bits, and integers
  /// of 8 bits with weights of i8. Factors of other types are converted first.
  std::set<DType> multiplied = {};
  /// For operators on constants that the interpreter would take long for. Without it, or where it
  /// fails, it is the interpreter that computes them, or they stay operators.
  Evaluate evaluate = {};
  StopToken stop = {};  ///< asked between passes
  /// A clock in seconds, for PassRun::seconds.
  std::function<double()> clock_s = [] { return 0.0; };
};

struct Pass {
  std::string_view name;
  std::string_view guarantee;  ///< what holds for the graph afterwards
  Result<Graph> (*apply)(const Graph& graph, const PassOptions& options);
  bool is_optional = false;  ///< a network may be faster without it: measure both
};

/// In the order in which they run.
const std::vector<Pass>& passes();

struct PassRun {
  std::string name;
  double seconds = 0;
  size_t operators_before = 0, operators_after = 0;
};

struct Passed {
  Graph graph;
  std::vector<PassRun> runs;
};

/// Runs all passes in order. Usage if `disabled` names something else than a pass; errors as
/// check_not_stopped() if the token stopped; Internal, naming the pass, if verification finds a
/// difference.
Result<Passed> apply_passes(Graph graph, const PassOptions& options = {});

}  // namespace tw::graph
