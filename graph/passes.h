// SPDX-License-Identifier: Apache-2.0
#pragma once
// Passes over graphs: pure functions that rewrite a graph and keep the values of its outputs, up to
// the roundings that PassOptions::precision asks for. A pass does not have to handle loops: the
// operators outside of loops are passed to it as one graph, and the body of each loop as another.
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

/// Computes the outputs of a workload with a kernel, from an array for each input, by the input's
/// name.
using Evaluate =
    std::function<Result<dsl::Arrays>(const dsl::Workload& workload, const dsl::Arrays& inputs)>;

struct PassOptions {
  std::set<std::string> disabled = {};  ///< names of passes that are left out
  /// If true, each pass is checked: the interpreter computes all outputs on random inputs before
  /// and after the pass. This is slow and meant for tests and small graphs.
  bool verify = false;
  /// Strict makes all operators strict, so that passes change no rounding. Fast leaves the accuracy
  /// class of each operator unchanged.
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;
  /// A 16-bit float type to which factors of f32 products are rounded where the target gains by
  /// that; nullopt: factors stay f32.
  std::optional<DType> precision = std::nullopt;
  /// Types of factors for which the target has dot products or tensor tiles: floats of 16 bits, and
  /// integers of 8 bits, whose weights are i8. Factors of other types are converted before they are
  /// multiplied.
  std::set<DType> multiplied = {};
  /// Evaluates operators on constants that would take the interpreter long. If this is empty or
  /// fails, the interpreter computes such an operator, or the operator stays in the graph.
  Evaluate evaluate = {};
  StopToken stop = {};  ///< polled between passes
  /// The clock, in seconds, by which PassRun::seconds is measured.
  std::function<double()> clock_s = [] { return 0.0; };
};

struct Pass {
  std::string_view name;
  std::string_view guarantee;  ///< property that the graph has after the pass
  Result<Graph> (*apply)(const Graph& graph, const PassOptions& options);
  bool is_optional = false;  ///< a network may be faster without the pass: measure both
};

/// All passes, in the order in which they run.
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

/// Runs all passes in order. Usage if a name in `disabled` is not that of a pass; the error of
/// check_not_stopped() if `stop` was requested; Internal, naming the pass, if verification finds a
/// difference.
Result<Passed> apply_passes(Graph graph, const PassOptions& options = {});

}  // namespace tw::graph
