// SPDX-License-Identifier: Apache-2.0
#pragma once
// Applies the passes over a network's graph (graph/passes.h) for a target. The passes depend on the
// types that the dot-product instructions of the target multiply. Operators that read only
// constants are computed during the passes, by kernels for this machine, even if the target is
// another one. Thread-safe.

#include <optional>
#include <set>
#include <string>

#include "base/dtype.h"
#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "tuner/workers/environment.h"

namespace tw::tuner {

struct RewriteOptions {
  std::set<std::string> left_out = {};           ///< names of the passes to leave out
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;  ///< accuracy class of each operator's kernel
  std::optional<DType> precision = {};           ///< graph::PassOptions::precision
};

/// Applies the passes to the graph, except those in options.left_out. Fails with the errors of
/// graph::apply_passes(), and with Interrupted if the user stops the call.
Result<graph::Passed> apply_passes_for(const Target& target, graph::Graph graph,
                                       const RewriteOptions& options,
                                       const Environment& environment);

}  // namespace tw::tuner
