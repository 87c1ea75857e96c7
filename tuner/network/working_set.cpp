// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/working_set.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace tw::tuner {
namespace {

// Bytes of cache that are needed for each byte of the working set. If the working set fills at most
// half of a cache, an inference finds the data there that the previous inference left; the other
// half is for other processes. A part of a larger working set comes from memory. For example, the
// working set of MobileNetV2 is 19 MiB, and a Zen 5 has 32 MiB of L3, shared by several virtual
// machines. The network reads the weights of its last layer at 71 GB/s; memory gives 43 GB/s and L3
// 100 GB/s. With kernels timed from memory, the planned time of the network is 2 to 10 % below its
// measured time.
constexpr int64_t least_cache_per_byte = 2;

int64_t constant_bytes(const graph::Graph& graph) {
  int64_t bytes = 0;
  for (const auto& [name, constant] : graph.constants) bytes += constant.type().bytes();
  return bytes;
}

/// Returns the most bytes of activations that are alive at the same time. Tensors that enter or
/// leave the body of a loop are alive as long as the loop runs. A result that nothing reads is
/// alive as long as its operator or loop runs.
int64_t most_live_bytes(const graph::Graph& graph) {
  const auto types = graph::tensor_types(graph);
  std::map<std::string, size_t> last_use;
  for (size_t i = 0; i < graph.operators.size(); ++i)
    for (const auto* tensors : {&graph.operators[i].inputs, &graph.operators[i].outputs})
      for (const std::string& tensor : *tensors) last_use[tensor] = i;
  const auto ranges = graph::loop_ranges(graph);
  const auto border_of = [](const graph::Loop& loop) {
    std::set<std::string> tensors;
    for (const auto& names : {graph::sources_of(loop), graph::entries_of(loop),
                              graph::exits_of(loop), graph::results_of(loop)})
      tensors.insert(names.begin(), names.end());
    return tensors;
  };
  for (size_t loop = 0; loop < ranges.size(); ++loop)
    for (const std::string& tensor : border_of(graph.loops[loop]))
      last_use[tensor] = std::max(last_use[tensor], ranges[loop].second - 1);
  for (const std::string& output : graph.outputs) last_use[output] = graph.operators.size();
  int64_t live = 0, most = 0;
  for (const graph::Port& input : graph.inputs) live += input.type.bytes();
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    const graph::Operator& op = graph.operators[i];
    std::set<std::string> used(op.inputs.begin(), op.inputs.end());
    used.insert(op.outputs.begin(), op.outputs.end());
    if (op.loop && ranges[*op.loop].first == i)
      for (const auto& names :
           {graph::entries_of(graph.loops[*op.loop]), graph::results_of(graph.loops[*op.loop])})
        for (const std::string& tensor : names) live += types.at(tensor).bytes();
    if (op.loop && ranges[*op.loop].second == i + 1) used.merge(border_of(graph.loops[*op.loop]));
    for (const std::string& tensor : op.outputs) live += types.at(tensor).bytes();
    most = std::max(most, live);
    for (const std::string& tensor : used)
      if (last_use.at(tensor) == i && !graph.constants.contains(tensor))
        live -= types.at(tensor).bytes();
  }
  return most;
}

}  // namespace

int64_t working_set_bytes(const graph::Graph& graph) {
  return constant_bytes(graph) + most_live_bytes(graph);
}

namespace {

dsl::CacheState state_for(int64_t working_set, const Machine& machine) {
  if (machine.gpu) return dsl::CacheState::Hot;
  const int64_t needed = least_cache_per_byte * working_set;
  if (needed <= machine.l2_bytes()) return dsl::CacheState::Hot;
  return needed <= machine.l3_bytes() ? dsl::CacheState::NetworkL3 : dsl::CacheState::NetworkMemory;
}

}  // namespace

dsl::CacheState state_of(const graph::Graph& graph, const Machine& machine) {
  return state_for(working_set_bytes(graph), machine);
}

std::vector<dsl::CacheState> states_of_loops(const graph::Graph& graph, const Machine& machine) {
  const auto types = graph::tensor_types(graph);
  std::vector<std::set<std::string>> used;
  for (const graph::Loop& loop : graph.loops) {
    const std::vector<std::string> entries = graph::entries_of(loop);
    used.emplace_back(entries.begin(), entries.end());
  }
  for (const graph::Operator& op : graph.operators)
    if (op.loop)
      for (const auto* tensors : {&op.inputs, &op.outputs})
        used[*op.loop].insert(tensors->begin(), tensors->end());
  std::vector<dsl::CacheState> states;
  for (const std::set<std::string>& tensors : used) {
    int64_t bytes = 0;
    for (const std::string& tensor : tensors) bytes += types.at(tensor).bytes();
    states.push_back(state_for(bytes, machine));
  }
  return states;
}

}  // namespace tw::tuner
