// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/passes/list.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

// The interpreter evaluates some 10^7 to 10^8 nodes of expressions a second. What one operator may
// cost, and all of them together.
constexpr double most_elements = 1 << 24, most_evaluations = 1e9;
constexpr double most_elements_together = 1 << 28, most_evaluations_together = 1e10;

struct Work {
  double elements = 0;     ///< of the stages
  double evaluations = 0;  ///< nodes of expressions
};

Work work_of(const dsl::Compute& compute) {
  Work work;
  for (const dsl::Stage& stage : compute.stages) {
    double elements = 1;
    for (const dsl::Axis& axis : stage.axes) elements *= static_cast<double>(axis.extent);
    work.elements += elements;
    work.evaluations += evaluations_of(stage) * stage.body.node().size;
  }
  return work;
}

class ConstantFolder {
 public:
  explicit ConstantFolder(const Graph& graph) : graph_(graph) {
    result_ = {graph.inputs, graph.constants, {}, graph.outputs};
  }

  Result<Graph> run() {
    for (const Operator& op : graph_.operators) {
      if (may_fold(op)) {
        TW_RETURN_IF_ERROR(fold(op));
      } else {
        TW_TRY(Operator kept, rebound(op));
        result_.operators.push_back(std::move(kept));
      }
    }
    return std::move(result_);
  }

 private:
  bool may_fold(const Operator& op) {
    const auto is_constant = [&](const std::string& t) { return result_.constants.contains(t); };
    if (!std::ranges::all_of(op.inputs, is_constant)) return false;
    const Work work = work_of(op.workload.compute);
    if (work.elements > most_elements || work.evaluations > most_evaluations ||
        together_.elements + work.elements > most_elements_together ||
        together_.evaluations + work.evaluations > most_evaluations_together)
      return false;
    together_.elements += work.elements;
    together_.evaluations += work.evaluations;
    return true;
  }

  Status fold(const Operator& op) {
    const dsl::Compute& compute = op.workload.compute;
    dsl::Arrays arrays;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      arrays[compute.inputs[i].name] = *result_.constants.at(op.inputs[i]).array;
    auto values = dsl::interpret(compute, arrays);
    if (!values)
      return fail(values.error().code,
                  fmt::format("[graph] operator '{}': {}", op.name(), values.error().message));
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      result_.constants[op.outputs[i]] = make_constant(std::move(values->at(compute.outputs[i])));
      folded_.insert(op.outputs[i]);
    }
    return {};
  }

  /// The operator with inputs that have become constants declared as weights.
  Result<Operator> rebound(const Operator& op) const {
    const auto is_folded = [&](const std::string& tensor) { return folded_.contains(tensor); };
    if (std::ranges::none_of(op.inputs, is_folded)) return op;
    return make_operator(op.workload.compute, op.inputs, op.outputs, result_.constants,
                         &op.workload);
  }

  const Graph& graph_;
  Graph result_;
  std::set<std::string> folded_;
  Work together_;
};

}  // namespace

Result<Graph> fold_constants(const Graph& graph) { return ConstantFolder(graph).run(); }

}  // namespace tw::graph
