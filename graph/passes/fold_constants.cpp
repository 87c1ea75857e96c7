// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/passes/list.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

// Limits for one operator, and for all folded operators together: on the elements of their stages,
// and on the evaluations by the interpreter. The interpreter evaluates some 10^7 to 10^8 expression
// nodes in a second.
constexpr double most_elements = 1 << 24, most_evaluations = 1e9;
constexpr double most_elements_together = 1 << 28, most_evaluations_together = 1e10;
// If there is an evaluator, operators of more than `most_interpreted` evaluations are computed by
// kernels, which may do `most_evaluations_of_kernels` together. Compiling a kernel takes a third of
// a second; the kernel then evaluates 10^9 expression nodes and more in a second.
constexpr double most_interpreted = 1e7, most_evaluations_of_kernels = 1e11;

struct Work {
  double elements = 0;     ///< elements of all stages
  double evaluations = 0;  ///< evaluations of expression nodes
};

Work work_of(const dsl::Compute& compute) {
  Work work;
  for (const dsl::Stage& stage : compute.stages) {
    double elements = 1, terms = 1;
    for (const dsl::Axis& axis : stage.axes) elements *= static_cast<double>(axis.extent);
    for (const dsl::Axis& axis : stage.reduction) terms *= static_cast<double>(axis.extent);
    work.elements += elements;
    work.evaluations += elements * (stage.scan ? 1 : terms) * stage.body.node().size;
  }
  return work;
}

class ConstantFolder {
 public:
  ConstantFolder(const Graph& graph, const PassOptions& options)
      : graph_(graph), options_(options) {
    result_ = {graph.inputs, graph.constants, {}, graph.outputs};
  }

  Result<Graph> run() {
    for (const Operator& op : graph_.operators) {
      TW_TRY(auto values, values_of(op));
      if (values) {
        replace(op, *values);
      } else {
        TW_TRY(Operator kept, rebound(op));
        result_.operators.push_back(std::move(kept));
      }
    }
    return std::move(result_);
  }

 private:
  /// Returns the outputs of an operator; nullopt if the operator is not folded.
  Result<std::optional<dsl::Arrays>> values_of(const Operator& op) {
    const std::optional<dsl::Arrays> none;
    const auto is_constant = [&](const std::string& t) { return result_.constants.contains(t); };
    if (!std::ranges::all_of(op.inputs, is_constant)) return none;
    const Work work = work_of(op.workload.compute);
    if (work.elements > most_elements ||
        together_.elements + work.elements > most_elements_together)
      return none;
    dsl::Arrays arrays;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      arrays[op.workload.compute.inputs[i].name] = *result_.constants.at(op.inputs[i]).array;
    TW_TRY(auto values, evaluated(op, work, arrays));
    if (!values) {
      TW_TRY(values, interpreted(op, work, arrays));
    }
    if (values) together_.elements += work.elements;
    return values;
  }

  /// Computes the outputs by a kernel; nullopt if a kernel is not worth it or cannot be made.
  Result<std::optional<dsl::Arrays>> evaluated(const Operator& op, const Work& work,
                                               const dsl::Arrays& arrays) {
    const std::optional<dsl::Arrays> none;
    if (!options_.evaluate || work.evaluations <= most_interpreted ||
        by_kernels_ + work.evaluations > most_evaluations_of_kernels)
      return none;
    TW_RETURN_IF_ERROR(check_not_stopped(options_.stop, "passes"));
    auto values = options_.evaluate(op.workload, arrays);
    if (!values) return none;
    by_kernels_ += work.evaluations;
    return std::optional(*std::move(values));
  }

  Result<std::optional<dsl::Arrays>> interpreted(const Operator& op, const Work& work,
                                                 const dsl::Arrays& arrays) {
    const std::optional<dsl::Arrays> none;
    if (work.evaluations > most_evaluations ||
        together_.evaluations + work.evaluations > most_evaluations_together)
      return none;
    auto values = dsl::interpret(op.workload.compute, arrays);
    if (!values)
      return fail(values.error().code,
                  fmt::format("[graph] operator '{}': {}", op.name(), values.error().message));
    together_.evaluations += work.evaluations;
    return std::optional(*std::move(values));
  }

  void replace(const Operator& op, dsl::Arrays& values) {
    const dsl::Compute& compute = op.workload.compute;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      result_.constants[op.outputs[i]] = make_constant(std::move(values.at(compute.outputs[i])));
      folded_.insert(op.outputs[i]);
    }
  }

  /// Returns the operator, in which inputs that have become constants are declared as weights.
  Result<Operator> rebound(const Operator& op) const {
    const auto is_folded = [&](const std::string& tensor) { return folded_.contains(tensor); };
    if (std::ranges::none_of(op.inputs, is_folded)) return op;
    return make_operator(op.workload.compute, op.inputs, op.outputs, result_.constants,
                         &op.workload);
  }

  const Graph& graph_;
  const PassOptions& options_;
  Graph result_;
  std::set<std::string> folded_;
  Work together_;          ///< elements of all folded operators, and evaluations by the interpreter
  double by_kernels_ = 0;  ///< evaluations by kernels
};

}  // namespace

Result<Graph> fold_constants(const Graph& graph, const PassOptions& options) {
  return ConstantFolder(graph, options).run();
}

}  // namespace tw::graph
