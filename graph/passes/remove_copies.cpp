// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using Positions = std::vector<size_t>;

/// Returns the compute of a transpose of a tensor of this shape. Its dimension i becomes dimension
/// positions[i], as in as_transpose().
Result<dsl::Compute> transpose(DType dtype, const std::vector<int64_t>& shape,
                               const Positions& positions) {
  std::vector<dsl::Axis> axes(shape.size()), extents;
  std::vector<dsl::Expr> indices;
  for (size_t i = 0; i < shape.size(); ++i) {
    axes[positions[i]] = {fmt::format("d{}", positions[i]), shape[i]};
    indices.emplace_back(axes[positions[i]]);
    extents.emplace_back(fmt::format("e{}", i), shape[i]);
  }
  const dsl::Tensor in = dsl::input("in", dtype, extents);
  return dsl::build(dsl::compute("out", axes, in.read_at(std::move(indices))));
}

/// True if the dimensions of more than one element keep their order, so that no element moves.
bool moves_nothing(const std::vector<int64_t>& shape, const Positions& positions) {
  size_t next = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (positions[i] < next) return false;
    next = positions[i];
  }
  return true;
}

class CopyRemover {
 public:
  explicit CopyRemover(const Graph& graph)
      : graph_(graph), uses_(graph), types_(tensor_types(graph)) {}

  Result<Graph> run() {
    Graph result = {graph_.inputs, graph_.constants, {}, graph_.outputs};
    for (const Operator& op : graph_.operators) TW_RETURN_IF_ERROR(visit(op));
    for (Operator& op : operators_) {
      for (std::string& tensor : op.inputs) tensor = current(tensor);
      for (std::string& tensor : op.outputs) tensor = current(tensor);
    }
    result.operators = std::move(operators_);
    return drop_dead(result);
  }

 private:
  /// An operator that moves elements without arithmetic: a reshape or a transpose.
  struct Move {
    std::string source;
    bool is_reshape = false;  ///< true for a reshape, false for a transpose
    Positions positions;
  };

  Status visit(Operator op) {
    for (std::string& tensor : op.inputs) tensor = current(tensor);
    if (std::optional<Move> move = move_of(op)) {
      join_with_writer(*move);
      if (is_copy(*move, op.name()) && forget(op.name(), move->source)) return {};
      TW_TRY(op, make(*move, op));
      moves_[op.name()] = *std::move(move);
    }
    operators_.push_back(std::move(op));
    return {};
  }

  std::optional<Move> move_of(const Operator& op) const {
    if (is_reshape(op)) return Move{op.inputs[0], true, {}};
    auto positions = as_transpose(op);
    if (!positions) return std::nullopt;
    if (moves_nothing(types_.at(op.inputs[0]).shape, *positions))
      return Move{op.inputs[0], true, {}};
    return Move{op.inputs[0], false, std::move(*positions)};
  }

  /// reshape(reshape(x)) -> reshape(x), transpose(transpose(x)) -> transpose(x).
  void join_with_writer(Move& move) const {
    const auto found = moves_.find(move.source);
    if (found == moves_.end() || found->second.is_reshape != move.is_reshape) return;
    const Move& first = found->second;
    Positions joined;
    for (const size_t position : first.positions) joined.push_back(move.positions[position]);
    move = {current(first.source), move.is_reshape, std::move(joined)};
    if (!move.is_reshape && moves_nothing(types_.at(move.source).shape, move.positions))
      move = {move.source, true, {}};
  }

  bool is_copy(const Move& move, const std::string& target) const {
    return move.is_reshape && types_.at(move.source) == types_.at(target);
  }

  /// Replaces the copy by its source. If the copy is an output of the graph, the source gets the
  /// name of the output. Returns false if that is impossible, because the source is itself an
  /// output, an input or a constant.
  bool forget(const std::string& copy, const std::string& source) {
    if (!uses_.is_output(copy)) {
      renamed_[copy] = source;
      return true;
    }
    if (uses_.is_output(source) || !uses_.writer(source)) return false;
    renamed_[source] = copy;
    if (const auto move = moves_.find(source); move != moves_.end()) moves_[copy] = move->second;
    return true;
  }

  Result<Operator> make(const Move& move, const Operator& op) const {
    const TensorType& from = types_.at(move.source);
    if (move.source == op.inputs[0] && move.is_reshape == is_reshape(op)) return op;
    TW_TRY(const dsl::Compute compute,
           move.is_reshape ? reshape(from.dtype, from.shape, types_.at(op.name()).shape)
                           : transpose(from.dtype, from.shape, move.positions));
    return make_operator(compute, {move.source}, op.outputs, graph_.constants);
  }

  /// Returns the tensor that replaces this tensor, or the tensor itself if it was not replaced.
  std::string current(std::string tensor) const {
    for (auto found = renamed_.find(tensor); found != renamed_.end(); found = renamed_.find(tensor))
      tensor = found->second;
    return tensor;
  }

  const Graph& graph_;
  Uses uses_;
  std::map<std::string, TensorType> types_;
  std::vector<Operator> operators_;
  std::map<std::string, Move> moves_;  ///< by the tensor that they write
  std::map<std::string, std::string> renamed_;
};

}  // namespace

Result<Graph> remove_copies(const Graph& graph) { return CopyRemover(graph).run(); }

}  // namespace tw::graph
