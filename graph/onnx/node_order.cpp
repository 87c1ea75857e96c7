// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

namespace tw::graph::onnx {
namespace {

/// For each node, the nodes whose outputs it reads, one entry for each read.
using Producers = std::vector<std::vector<size_t>>;
using Writers = std::unordered_map<std::string_view, size_t>;

Writers writers_of(const std::vector<NodeNames>& nodes) {
  Writers writers;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string_view name : nodes[i].writes)
      if (!name.empty()) writers.emplace(name, i);
  return writers;
}

std::vector<size_t> writers_of(const std::vector<std::string_view>& names, const Writers& writers) {
  std::vector<size_t> found;
  for (const std::string_view name : names)
    if (const auto writer = writers.find(name); writer != writers.end())
      found.push_back(writer->second);
  return found;
}

/// Returns a flag for each node: true for the nodes `needed` and for all nodes on which these
/// depend.
std::vector<bool> live_nodes(const Producers& producers, std::vector<size_t> needed) {
  std::vector<bool> live(producers.size());
  while (!needed.empty()) {
    const size_t node = needed.back();
    needed.pop_back();
    if (live[node]) continue;
    live[node] = true;
    needed.insert(needed.end(), producers[node].begin(), producers[node].end());
  }
  return live;
}

/// Returns a node on a cycle. From `node` on, follows producers that could not be ordered until a
/// node is met a second time.
size_t node_on_cycle(const Producers& producers, const std::vector<size_t>& waits_for,
                     size_t node) {
  std::vector<bool> seen(producers.size());
  while (!seen[node]) {
    seen[node] = true;
    node = *std::ranges::find_if(producers[node], [&](size_t p) { return waits_for[p] > 0; });
  }
  return node;
}

}  // namespace

NodeOrder order_nodes(const std::vector<NodeNames>& nodes,
                      const std::vector<std::string_view>& outputs) {
  const Writers writers = writers_of(nodes);
  Producers producers(nodes.size()), consumers(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) producers[i] = writers_of(nodes[i].reads, writers);
  const std::vector<bool> live = live_nodes(producers, writers_of(outputs, writers));

  std::vector<size_t> waits_for(nodes.size());
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!live[i]) continue;
    waits_for[i] = producers[i].size();
    for (const size_t producer : producers[i]) consumers[producer].push_back(i);
    if (waits_for[i] == 0) ready.push(i);
  }
  NodeOrder order;
  while (!ready.empty()) {
    const size_t node = ready.top();
    ready.pop();
    order.nodes.push_back(node);
    for (const size_t consumer : consumers[node])
      if (--waits_for[consumer] == 0) ready.push(consumer);
  }
  const auto waiting = std::ranges::find_if(waits_for, [](size_t count) { return count > 0; });
  if (waiting != waits_for.end())
    order.on_cycle =
        node_on_cycle(producers, waits_for, static_cast<size_t>(waiting - waits_for.begin()));
  return order;
}

}  // namespace tw::graph::onnx
