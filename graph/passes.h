// SPDX-License-Identifier: Apache-2.0
#pragma once
// Passes over graphs: pure functions that rewrite a graph and keep the values of its outputs, up to
// rounding. If PassOptions::precision asks for it, this includes rounding the factors of products
// to 16 bits. Passes need not handle loops: the operators outside of loops are passed to them as
// one graph, and the body of each loop as another.
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

/// A function that computes the outputs of a workload by running a kernel. `inputs` has an array
/// for each input of the workload's compute, by the input's name. The result has the outputs by
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
  /// A 16-bit float type. Factors of f32 products are rounded to it if the target computes the
  /// products faster then. nullopt: factors stay f32.
  std::optional<DType> precision = std::nullopt;
  /// Types of factors for which the target has dot products or tensor tiles. A 16-bit float in the
  /// set means that both factors have this type. u8 or i8 means that the activations have this type
  /// and the weights are i8. Factors of other types are converted before they are multiplied.
  std::set<DType> multiplied = {};
  /// Computes operators that read only constants and would take the interpreter long. If `evaluate`
  /// is empty or fails, the interpreter computes the operator; if that would take too long, the
  /// operator stays in the graph.
  Evaluate evaluate = {};
  StopToken stop = {};  ///< polled between passes
  /// The clock, in seconds, by which PassRun::seconds is measured.
  std::function<double()> clock_s = [] { return 0.0; };
};

struct Pass {
  std::string_view name;
  std::string_view guarantee;  ///< a property that the graph has after the pass
  Result<Graph> (*apply)(const Graph& graph, const PassOptions& options);
  bool is_optional = false;  ///< a network may be faster without the pass: measure both
};

/// All passes, in the order in which they run.
const std::vector<Pass>& passes();

struct PassRun {
  std::string name;
  double seconds = 0;
  size_t operators_before = 0, operators_after = 0;
  bool changed = false;  ///< true if the text of the graph (to_text()) differs after the pass
};

struct Passed {
  Graph graph;
  std::vector<PassRun> runs;
};

/// Runs all passes in order. Fails with Usage if a name in `disabled` is not the name of a pass;
/// with Invalid if the graph is not valid; with the error of check_not_stopped() if `stop` was
/// requested; and with Internal, naming the pass, if a pass makes a graph that is not valid or
/// verification finds a difference. Also fails with the errors of the passes.
Result<Passed> apply_passes(Graph graph, const PassOptions& options = {});

}  // namespace tw::graph
