// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "graph/passes/list.h"

namespace tw::graph {
namespace {

class Liveness {
 public:
  explicit Liveness(const Graph& graph)
      : graph_(graph),
        ranges_(loop_ranges(graph)),
        is_live_(graph.operators.size()),
        needed_(graph.outputs.begin(), graph.outputs.end()) {
    for (size_t i = graph.operators.size(); i-- > 0;) {
      const std::optional<size_t> loop = graph.operators[i].loop;
      if (!loop) {
        visit(i);
        continue;
      }
      visit_loop(*loop);
      i = ranges_[*loop].first;
    }
  }

  /// The graph without parts that no output needs.
  Graph live() const {
    Graph result = {graph_.inputs, {}, {}, graph_.outputs, {}};
    // Index of each loop in the result.
    std::vector<std::optional<size_t>> numbers(graph_.loops.size());
    for (size_t i = 0; i < graph_.operators.size(); ++i) {
      if (!is_live_[i]) continue;
      Operator& op = result.operators.emplace_back(graph_.operators[i]);
      if (!op.loop) continue;
      std::optional<size_t>& number = numbers[*op.loop];
      if (!number) {
        number = result.loops.size();
        result.loops.push_back(live(graph_.loops[*op.loop]));
      }
      op.loop = number;
    }
    for (const auto& [name, constant] : graph_.constants)
      if (is_needed(name)) result.constants.emplace(name, constant);
    return result;
  }

 private:
  bool is_needed(const std::string& tensor) const { return needed_.contains(tensor); }
  void need(const std::vector<std::string>& tensors) {
    needed_.insert(tensors.begin(), tensors.end());
  }
  bool is_live(const Loop::State& state) const {
    return is_needed(state.inside) || is_needed(state.last);
  }

  void visit(size_t i) {
    const Operator& op = graph_.operators[i];
    const auto is_read = [&](const std::string& tensor) { return is_needed(tensor); };
    if (std::ranges::none_of(op.outputs, is_read)) return;
    is_live_[i] = true;
    need(op.inputs);
  }

  /// Marks the live operators of a loop and the tensors that the loop needs. If the body reads a
  /// state, the operators that compute its value for the next trip are live, and these may read
  /// further states. The visit repeats until it finds no further tensor.
  void visit_loop(size_t number) {
    const Loop& loop = graph_.loops[number];
    const auto [first, end] = ranges_[number];
    for (const Loop::Slice& stack : loop.stacks)
      if (is_needed(stack.outside)) need({stack.inside});
    for (size_t known = 0; known != needed_.size();) {
      known = needed_.size();
      for (const Loop::State& state : loop.states)
        if (is_live(state)) need({state.inside, state.first, state.next});
      for (size_t i = end; i-- > first;) visit(i);
    }
    for (const auto& [inside, outside] : loop.shares)
      if (is_needed(inside)) need({outside});
    for (const Loop::Slice& slice : loop.slices)
      if (is_needed(slice.inside)) need({slice.outside});
  }

  Loop live(Loop loop) const {
    std::erase_if(loop.shares, [&](const auto& share) { return !is_needed(share.inside); });
    std::erase_if(loop.slices, [&](const auto& slice) { return !is_needed(slice.inside); });
    std::erase_if(loop.states, [&](const auto& state) { return !is_live(state); });
    std::erase_if(loop.stacks, [&](const auto& stack) { return !is_needed(stack.outside); });
    for (Loop::State& state : loop.states)
      if (!is_needed(state.last)) state.last.clear();
    return loop;
  }

  const Graph& graph_;
  const std::vector<std::pair<size_t, size_t>> ranges_;
  std::vector<bool> is_live_;  ///< for each operator, true if an output needs it
  std::set<std::string> needed_;
};

}  // namespace

Result<Graph> drop_dead(const Graph& graph) { return Liveness(graph).live(); }

}  // namespace tw::graph
