// SPDX-License-Identifier: Apache-2.0
// Groups of operators to fuse grow from their last operator towards the inputs: an operator joins a
// group if all of its readers are in the group. So only the result of the last operator leaves the
// group, and the fused operator can stand at the place of the last one, where all inputs are known.
//
// An operator that directly reads and narrows the result of a reduction, for example to quantize
// it, joins no group. fuse_epilogues() fuses it into the reduction, whose result is then narrow in
// memory. If it were in a group that adds two such results, one of the two would be stored wide.

#include <algorithm>
#include <set>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

// The most nodes and levels of the expression of a fused kernel, so that its vectors of values stay
// in registers and it is compiled quickly.
constexpr int most_nodes = 500, most_levels = 100;

class ElementwiseGroups {
 public:
  explicit ElementwiseGroups(const Graph& graph) : graph_(graph), uses_(graph) {
    members_.resize(graph.operators.size());
    for (size_t i = graph.operators.size(); i-- > 0;) place(i);
  }

  /// Returns the graph in which each group is one operator, at the place of the last operator of
  /// the group.
  Result<Graph> fused() const {
    Graph result = {graph_.inputs, graph_.constants, {}, graph_.outputs};
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].last != i) continue;
      TW_TRY(Operator op, fused_group(groups_.at(i), i));
      result.operators.push_back(std::move(op));
    }
    return result;
  }

 private:
  struct Member {
    size_t last = 0;       ///< index of the last operator of the group, which identifies the group
    int times = 1;         ///< number of times that the operator occurs in the group's expression
    int levels_below = 0;  ///< levels of that expression from its root to the operator
    bool is_elementwise = false;
  };
  struct Group {
    std::vector<size_t> operators;  ///< from the last to the first
    std::set<std::string> inputs;
    int nodes = 0;
  };

  void place(size_t i) {
    const Operator& op = graph_.operators[i];
    members_[i] = {i, 1, 0, is_elementwise(op)};
    if (members_[i].is_elementwise && !narrows_reduction(i) && joins(i)) return;
    const int nodes = members_[i].is_elementwise ? only_stage(op)->body.node().size : 0;
    groups_[i] = {{i}, {op.inputs.begin(), op.inputs.end()}, nodes};
  }

  /// True if operator `i` works element by element, the elements of its result have fewer bytes
  /// than those of its operand, and it is the only reader of this operand, which is the result of
  /// an operator that takes epilogues.
  bool narrows_reduction(size_t i) const {
    const Operator& op = graph_.operators[i];
    const int64_t bytes = size_bytes(only_stage(op)->type);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const std::string& tensor = op.inputs[k];
      const auto writer = uses_.writer(tensor);
      if (writer && takes_epilogue(graph_.operators[*writer]) && uses_.is_only_reader(i, tensor) &&
          count_pointwise_reads(op, tensor).value_or(0) > 0 &&
          size_bytes(op.workload.compute.inputs[k].type) > bytes)
        return true;
    }
    return false;
  }

  bool joins(size_t i) {
    const Operator& op = graph_.operators[i];
    const std::vector<size_t>& readers = uses_.readers(op.name());
    if (readers.empty() || uses_.is_output(op.name())) return false;
    const dsl::ExprNode& body = only_stage(op)->body.node();
    Member member{members_[readers.front()].last, 0, 0, true};
    for (const size_t reader : readers) {
      const Member& other = members_[reader];
      const auto reads = reads_of(reader, op.name());
      if (!reads || other.last != member.last) return false;
      member.times = std::min(most_nodes, member.times + other.times * *reads);
      member.levels_below = std::max(member.levels_below, other.levels_below + height_of(reader));
    }
    Group& group = groups_.at(member.last);
    std::set<std::string> inputs = group.inputs;
    inputs.erase(op.name());
    inputs.insert(op.inputs.begin(), op.inputs.end());
    const int64_t nodes = group.nodes + int64_t{member.times} * body.size;
    if (inputs.size() > most_fused_inputs || nodes > most_nodes ||
        member.levels_below + body.height > most_levels)
      return false;
    group.operators.push_back(i);
    group.inputs = std::move(inputs);
    group.nodes = static_cast<int>(nodes);
    members_[i] = member;
    return true;
  }

  int height_of(size_t i) const { return only_stage(graph_.operators[i])->body.node().height; }

  /// Returns the number of reads of the tensor by the operator. nullopt unless the operator is
  /// elementwise, has the shape of the tensor, and reads the tensor at its own axes only.
  std::optional<int> reads_of(size_t reader, const std::string& tensor) const {
    if (!members_[reader].is_elementwise) return std::nullopt;
    return count_pointwise_reads(graph_.operators[reader], tensor);
  }

  Result<Operator> fused_group(const Group& group, size_t last) const {
    if (group.operators.size() == 1) return graph_.operators[last];
    std::vector<Operator> operators;
    for (auto i = group.operators.rbegin(); i != group.operators.rend(); ++i)
      operators.push_back(graph_.operators[*i]);
    return fuse(operators, graph_.operators[last].outputs, graph_.constants);
  }

  const Graph& graph_;
  Uses uses_;
  std::vector<Member> members_;
  std::map<size_t, Group> groups_;
};

}  // namespace

Result<Graph> fuse_elementwise(const Graph& graph) { return ElementwiseGroups(graph).fused(); }

}  // namespace tw::graph
