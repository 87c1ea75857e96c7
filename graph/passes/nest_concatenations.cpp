// SPDX-License-Identifier: Apache-2.0
//   y = concat(a, b)           y = concat(a, b)
//   z = concat(a, b, c)   ->   z = concat(y, c)
//
// In dense blocks every concatenation extends the concatenation before it. After nesting, each
// tensor is an input of one concatenation only, so that all of the tensors can lie in one array
// (tuner/network/assemble.h).

#include <algorithm>
#include <map>
#include <utility>

#include "graph/passes/list.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

class ConcatenationNester {
 public:
  explicit ConcatenationNester(const Graph& graph) : types_(tensor_types(graph)), result_(graph) {}

  Result<Graph> run() {
    for (Operator& op : result_.operators) TW_RETURN_IF_ERROR(visit(op));
    return std::move(result_);
  }

 private:
  using Tensors = std::vector<std::string>;
  struct Known {
    Tensors pieces;
    std::string result;
  };

  Status visit(Operator& op) {
    const auto concatenation = as_concatenation(op);
    if (!concatenation) return {};
    Tensors pieces;
    for (const size_t input : concatenation->inputs) pieces.push_back(op.inputs[input]);
    const size_t dimension = concatenation->dimension;
    const Tensors nested = nested_in(pieces, dimension);
    known_[{dimension, pieces.front()}].push_back({pieces, op.name()});
    if (nested.size() == pieces.size()) return {};
    std::vector<std::vector<int64_t>> shapes;
    for (const std::string& piece : nested) shapes.push_back(types_.at(piece).shape);
    TW_TRY(const dsl::Compute compute, concatenate(types_.at(op.name()).dtype, shapes, dimension));
    TW_TRY(op, make_operator(compute, nested, op.outputs, result_.constants));
    return {};
  }

  /// Returns the pieces, in which the pieces of an earlier concatenation are replaced by its
  /// result.
  Tensors nested_in(const Tensors& pieces, size_t dimension) const {
    Tensors nested;
    for (size_t i = 0; i < pieces.size();) {
      const Known* longest = longest_at(pieces, i, dimension);
      nested.push_back(longest ? longest->result : pieces[i]);
      i += longest ? longest->pieces.size() : 1;
    }
    return nested;
  }

  /// Returns the longest earlier concatenation whose pieces are the pieces from `first` on, in the
  /// same order; nullptr if there is none. A concatenation of all of `pieces` does not count.
  const Known* longest_at(const Tensors& pieces, size_t first, size_t dimension) const {
    const auto candidates = known_.find({dimension, pieces[first]});
    if (candidates == known_.end()) return nullptr;
    const Known* longest = nullptr;
    for (const Known& known : candidates->second) {
      const size_t count = known.pieces.size();
      if (count == pieces.size() || count > pieces.size() - first ||
          (longest && count <= longest->pieces.size()))
        continue;
      if (std::equal(known.pieces.begin(), known.pieces.end(),
                     pieces.begin() + static_cast<std::ptrdiff_t>(first)))
        longest = &known;
    }
    return longest;
  }

  const std::map<std::string, TensorType> types_;
  Graph result_;
  /// The concatenations that were visited so far, by dimension and first piece.
  std::map<std::pair<size_t, std::string>, std::vector<Known>> known_;
};

}  // namespace

Result<Graph> nest_concatenations(const Graph& graph) { return ConcatenationNester(graph).run(); }

}  // namespace tw::graph
