// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using Names = std::vector<std::string>;

/// If a pass has made an output of the body a constant, adds an operator that copies the constant
/// to the output.
Status copy_constant_outputs(Graph& body) {
  FreshNames names(body);
  for (const std::string& output : body.outputs) {
    auto constant = body.constants.extract(output);
    if (!constant) continue;
    const TensorType type = constant.mapped().type();
    constant.key() = names.make(output + ".value");
    const std::string name = constant.key();
    for (Operator& op : body.operators) std::ranges::replace(op.inputs, output, name);
    body.constants.insert(std::move(constant));
    TW_TRY(const dsl::Compute same, reshape(type.dtype, type.shape, type.shape));
    TW_TRY(Operator copy, make_operator(same, {name}, {output}, body.constants));
    body.operators.insert(body.operators.begin(), std::move(copy));
  }
  return {};
}

/// If a Share gives a constant another name in a body, removes the Share and lets the operators of
/// the body read the constant by its own name.
Status bind_shared_constants(Graph& graph) {
  for (size_t number = 0; number < graph.loops.size(); ++number) {
    std::map<std::string, std::string> constants;  // name in the body -> name of the constant
    std::erase_if(graph.loops[number].shares, [&](const Loop::Share& share) {
      return graph.constants.contains(share.outside) &&
             constants.emplace(share.inside, share.outside).second;
    });
    if (constants.empty()) continue;
    for (Operator& op : graph.operators) {
      if (op.loop != number) continue;
      const Names former = op.inputs;
      for (std::string& tensor : op.inputs)
        if (const auto found = constants.find(tensor); found != constants.end())
          tensor = found->second;
      if (op.inputs == former) continue;
      TW_TRY(op, make_operator(op.workload.compute, op.inputs, op.outputs, graph.constants,
                               &op.workload));
      op.loop = number;
    }
  }
  return {};
}

/// Sorts operators and loops so that each stands after the operators and loops that write what it
/// reads.
class Sorter {
 public:
  explicit Sorter(Graph& graph) : graph_(graph), bodies_(graph.loops.size()) {
    for (const Port& port : graph.inputs) known_.insert(port.name);
    for (const auto& [name, constant] : graph.constants) known_.insert(name);
    for (Operator& op : graph.operators)
      (op.loop ? bodies_[*op.loop] : outside_).push_back(std::move(op));
    for (size_t i = 0; i < graph.loops.size(); ++i) loops_.push_back(i);
    graph.operators.clear();
  }

  /// Each round places the operators whose inputs are known, and then the loops whose sources are
  /// known.
  Status run() {
    std::vector<Loop> loops;
    while (!outside_.empty() || !loops_.empty()) {
      const size_t left = outside_.size() + loops_.size();
      std::vector<Operator> later;
      for (Operator& op : outside_) {
        if (!are_known(op.inputs)) {
          later.push_back(std::move(op));
          continue;
        }
        known_.insert(op.outputs.begin(), op.outputs.end());
        graph_.operators.push_back(std::move(op));
      }
      outside_ = std::move(later);
      std::erase_if(loops_, [&](size_t number) {
        if (!are_known(sources_of(graph_.loops[number]))) return false;
        for (Operator& op : bodies_[number]) {
          op.loop = loops.size();
          graph_.operators.push_back(std::move(op));
        }
        loops.push_back(graph_.loops[number]);
        const Names results = results_of(loops.back());
        known_.insert(results.begin(), results.end());
        return true;
      });
      if (outside_.size() + loops_.size() == left)
        return fail(ErrorCode::Internal, "[passes] a loop depends on its own results");
    }
    graph_.loops = std::move(loops);
    return {};
  }

 private:
  bool are_known(const Names& tensors) const {
    return std::ranges::all_of(tensors, [&](const std::string& t) { return known_.contains(t); });
  }

  Graph& graph_;
  std::vector<Operator> outside_;  ///< operators outside of loops that are not placed yet
  std::vector<std::vector<Operator>> bodies_;  ///< operators of each loop
  std::vector<size_t> loops_;                  ///< indices of loops that are not placed yet
  /// Tensors outside of loops that are inputs, constants or results of placed operators and loops.
  std::set<std::string> known_;
};

}  // namespace

std::vector<PartNumber> parts_of(const Graph& graph) {
  std::vector<PartNumber> parts = {std::nullopt};
  for (size_t i = 0; i < graph.loops.size(); ++i) parts.emplace_back(i);
  return parts;
}

Graph part_of(const Graph& graph, PartNumber number) {
  Graph part;
  if (number) {
    part.outputs = exits_of(graph.loops[*number]);
  } else {
    part.outputs = graph.outputs;
    for (const Loop& loop : graph.loops)
      for (const std::string& source : sources_of(loop))
        if (std::ranges::find(part.outputs, source) == part.outputs.end())
          part.outputs.push_back(source);
  }
  part.constants = graph.constants;
  std::map<std::string, TensorType> others = tensor_types(graph);
  for (const auto& [name, constant] : graph.constants) others.erase(name);
  for (const Operator& op : graph.operators) {
    if (op.loop != number) continue;
    part.operators.push_back(op);
    part.operators.back().loop.reset();
    for (const std::string& output : op.outputs) others.erase(output);
  }
  for (auto& [name, type] : others) part.inputs.push_back({name, std::move(type)});
  return part;
}

Result<Graph> with_part(const Graph& graph, PartNumber number, Graph part) {
  if (number) TW_RETURN_IF_ERROR(copy_constant_outputs(part));
  Graph result = {graph.inputs, graph.constants, {}, graph.outputs, graph.loops};
  result.constants.merge(part.constants);
  for (const Operator& op : graph.operators)
    if (op.loop != number) result.operators.push_back(op);
  for (Operator& op : part.operators) {
    op.loop = number;
    result.operators.push_back(std::move(op));
  }
  TW_RETURN_IF_ERROR(bind_shared_constants(result));
  TW_RETURN_IF_ERROR(Sorter(result).run());
  return result;
}

}  // namespace tw::graph
