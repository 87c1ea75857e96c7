// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "graph/passes/list.h"

namespace tw::graph {

Result<Graph> drop_dead(const Graph& graph) {
  std::set<std::string> needed(graph.outputs.begin(), graph.outputs.end());
  Graph result = {graph.inputs, {}, {}, graph.outputs};
  for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) {
    const auto is_needed = [&](const std::string& tensor) { return needed.contains(tensor); };
    if (std::ranges::none_of(op->outputs, is_needed)) continue;
    needed.insert(op->inputs.begin(), op->inputs.end());
    result.operators.push_back(*op);
  }
  std::ranges::reverse(result.operators);
  for (const auto& [name, constant] : graph.constants)
    if (needed.contains(name)) result.constants.emplace(name, constant);
  return result;
}

}  // namespace tw::graph
