// SPDX-License-Identifier: Apache-2.0
// Fuses an elementwise operator into the reduction whose result it reads:
//
//   c = conv2d(x, w, b) bias=1
//   y = max(c[...] + s[...], 0)   ->   y = conv2d(x, w, b, s) bias=1 residual=1 relu=1

#include <algorithm>
#include <array>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

constexpr int most_nodes_of_kernel = 1000;

bool is_small_together(const Operator& writer, const Operator& reader) {
  int64_t nodes = 0;
  for (const Operator* op : {&writer, &reader})
    for (const dsl::Stage& stage : op->workload.compute.stages) nodes += stage.body.node().size;
  return have_few_inputs(writer, reader) && nodes <= most_nodes_of_kernel;
}

/// Returns the elementwise operator with `letters` as the dimension letters of its result and of
/// all inputs of the same shape. Named operators such as conv2d give their own letters to a
/// residual, so that the fused operator can be recognised as conv2d.
Operator spelled_like(Operator op, const std::string& letters) {
  dsl::Compute& compute = op.workload.compute;
  dsl::Stage& stage = compute.stages.front();
  stage.letters = letters;
  for (dsl::Input& input : compute.inputs)
    if (input.shape == stage.shape()) input.letters = letters;
  return op;
}

}  // namespace

Result<Graph> fuse_epilogues(const Graph& graph) {
  const Uses uses(graph);
  std::vector<std::optional<Operator>> operators = as_list(graph);
  for (size_t i = 0; i < operators.size(); ++i) {
    const Operator op = *operators[i];
    if (!is_elementwise(op)) continue;
    // If several inputs qualify, as in a sum of two convolutions, the operator is fused into the
    // last of their producers.
    std::optional<size_t> producer;
    for (const std::string& tensor : op.inputs) {
      const auto writer = uses.writer(tensor);
      if (!writer || !uses.is_only_reader(i, tensor) || !count_pointwise_reads(op, tensor) ||
          !takes_epilogue(*operators[*writer]) || !is_small_together(*operators[*writer], op))
        continue;
      producer = std::max(producer.value_or(0), *writer);
    }
    if (!producer) continue;
    const dsl::Compute& first = operators[*producer]->workload.compute;
    const std::array<Operator, 2> both = {
        *operators[*producer], spelled_like(op, first.letters_of(first.outputs.front()))};
    TW_TRY(operators[i], fuse(both, op.outputs, graph.constants));
    operators[*producer].reset();
  }
  return Graph{graph.inputs, graph.constants, remaining(std::move(operators)), graph.outputs};
}

}  // namespace tw::graph
