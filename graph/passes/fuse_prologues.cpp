// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

/// True if fusing the elementwise operator that writes this input evaluates none of the input's
/// elements twice. If the compute reads the input at several places, the fused operator becomes a
/// stage, and nothing is repeated. If it reads the input at one place, the operator is inlined into
/// the stage that reads it. That stage must not have more evaluations than the input has elements.
bool repeats_nothing(const dsl::Compute& compute, const std::string& input) {
  int reads = 0;
  double points = 0;
  for (const dsl::Stage& stage : compute.stages)
    dsl::for_each(stage.body, [&](const dsl::Expr& node) {
      const dsl::Read* r = node.as<dsl::Read>();
      if (!r || r->tensor != input) return;
      ++reads;
      points = evaluations_of(stage);
    });
  return reads > 1 || points <= dsl::elements_of(compute.shape_of(input));
}

/// True if elementwise operators may be fused into the inputs of this operator. The named products
/// are excluded, because their kernels expect operands in memory.
bool takes_prologue(const Operator& op) {
  const std::set<std::string> products = {"attention", "batch_matmul", "conv2d", "dense"};
  return is_fast(op) && op.outputs.size() == 1 && has_reduction(op.workload.compute) &&
         !products.contains(op.workload.op);
}

}  // namespace

Result<Graph> fuse_prologues(const Graph& graph) {
  const Uses uses(graph);
  std::vector<std::optional<Operator>> operators = as_list(graph);
  for (size_t i = 0; i < operators.size(); ++i) {
    if (!takes_prologue(*operators[i])) continue;
    for (const std::string& tensor : graph.operators[i].inputs) {
      const auto writer = uses.writer(tensor);
      if (!writer || !uses.is_only_reader(i, tensor) || !is_elementwise(*operators[*writer]))
        continue;
      const Operator& reader = *operators[i];
      const auto name = input_for(reader, tensor);
      if (!name || !have_few_inputs(*operators[*writer], reader) ||
          !repeats_nothing(reader.workload.compute, *name))
        continue;
      const std::array<Operator, 2> both = {*operators[*writer], reader};
      TW_TRY(operators[i], fuse(both, reader.outputs, graph.constants));
      operators[*writer].reset();
    }
  }
  return Graph{graph.inputs, graph.constants, remaining(std::move(operators)), graph.outputs};
}

}  // namespace tw::graph
