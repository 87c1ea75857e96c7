// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/text.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"

namespace tw::graph {

Result<Graph> share_common(const Graph& graph) {
  const Uses uses(graph);
  std::map<std::string, std::string> same;       // tensor -> the equal one that is kept
  std::map<std::string, std::string> constants;  // hash -> tensor
  for (const auto& [name, constant] : graph.constants) {
    const auto [first, is_new] = constants.emplace(constant.hash, name);
    if (!is_new) same[name] = first->second;
  }
  Graph result = {graph.inputs, graph.constants, {}, graph.outputs};
  std::map<std::string, size_t> known;  // key and inputs -> operator of the result
  for (Operator op : graph.operators) {
    for (std::string& tensor : op.inputs)
      if (const auto found = same.find(tensor); found != same.end()) tensor = found->second;
    const std::string key = op.workload.key() + "\n" + join(op.inputs, ",");
    const auto [first, is_new] = known.emplace(key, result.operators.size());
    const auto is_output = [&](const std::string& tensor) { return uses.is_output(tensor); };
    if (is_new || std::ranges::any_of(op.outputs, is_output)) {
      result.operators.push_back(std::move(op));
      continue;
    }
    const Operator& kept = result.operators[first->second];
    for (size_t i = 0; i < op.outputs.size(); ++i) same[op.outputs[i]] = kept.outputs[i];
  }
  return drop_dead(result);
}

}  // namespace tw::graph
