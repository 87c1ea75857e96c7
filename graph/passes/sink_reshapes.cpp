// SPDX-License-Identifier: Apache-2.0
// A matrix product of a batch is a product of two matrices between reshapes, behind which its bias
// and activation stand. They move before the second reshape, so that the product can take them:
//
//   r = reshape(t) 1x128x768         u = t[m, n] + b[n]
//   y = r[i, j, k] + b[k]       ->   y = reshape(u) 1x128x768

#include <fmt/format.h>

#include <algorithm>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using dsl::Expr;
using Shape = std::vector<int64_t>;

/// For each dimension of the shape `to`, the dimension of `from` that a reshape turns into it, or
/// nullopt where it splits or joins dimensions there. Those of one element have none.
std::vector<std::optional<size_t>> kept_dimensions(const Shape& from, const Shape& to) {
  std::vector<std::optional<size_t>> kept(to.size());
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    const size_t first_from = i, first_to = j;
    int64_t a = from[i++], b = to[j++];
    while (a != b && (a < b ? i < from.size() : j < to.size())) {
      if (a < b) {
        a *= from[i++];
      } else {
        b *= to[j++];
      }
    }
    // Dimensions of one element beside one larger dimension change nothing about it.
    const auto larger = [](const Shape& shape, size_t first, size_t end) {
      std::vector<size_t> found;
      for (size_t d = first; d < end; ++d)
        if (shape[d] != 1) found.push_back(d);
      return found;
    };
    const auto those = larger(from, first_from, i), these = larger(to, first_to, j);
    if (a == b && those.size() == 1 && these.size() == 1) kept[these[0]] = those[0];
  }
  return kept;
}

/// An elementwise operator on tensors of the shape `to` as one on their reshapes to `from`.
class Reindex {
 public:
  Reindex(const Operator& op, const Shape& from) : compute_(op.workload.compute), from_(from) {
    const dsl::Stage& stage = compute_.stages.front();
    const auto kept = kept_dimensions(from, stage.shape());
    for (size_t i = 0; i < from.size(); ++i) axes_.emplace_back(fmt::format("d{}", i), from[i]);
    for (size_t i = 0; i < kept.size(); ++i) {
      // validate() refuses the variable, which is no axis.
      const Expr other = stage.axes[i].extent == 1 ? Expr(0) : dsl::var("no axis");
      axes_of_.emplace(stage.axes[i].name, kept[i] ? Expr(axes_[*kept[i]]) : other);
    }
  }

  /// nullopt where an index is needed that the other shape does not have.
  std::optional<dsl::Compute> run() const {
    dsl::Compute result = compute_;
    dsl::Stage& stage = result.stages.front();
    stage.axes = axes_;
    stage.letters.clear();
    const std::vector<Expr> own(axes_.begin(), axes_.end());
    stage.body = dsl::transform(dsl::substitute(stage.body, axes_of_),
                                [&](const Expr& node) -> std::optional<Expr> {
                                  const dsl::Read* r = node.as<dsl::Read>();
                                  if (!r || !is_of_the_shape(r->tensor)) return std::nullopt;
                                  return dsl::read(r->tensor, own, r->type);
                                });
    for (dsl::Input& input : result.inputs)
      if (is_of_the_shape(input.name)) {
        input.shape = from_;
        input.letters.clear();
      }
    if (!dsl::validate(result)) return std::nullopt;
    return result;
  }

  /// Whether the input is read at the stage's own axes, so that it is reshaped too.
  bool is_of_the_shape(const std::string& input) const {
    return count_pointwise_reads(compute_, compute_.stages.front(), input).has_value();
  }

 private:
  const dsl::Compute& compute_;
  Shape from_;
  std::vector<dsl::Axis> axes_;
  dsl::Substitution axes_of_;
};

class ReshapeSinker {
 public:
  explicit ReshapeSinker(const Graph& graph)
      : uses_(graph), names_(graph), types_(tensor_types(graph)), result_(graph) {
    result_.operators.clear();
    for (size_t i = 0; i < graph.operators.size(); ++i) order_.push_back(&graph.operators[i]);
  }

  Result<Graph> run() {
    for (size_t i = 0; i < order_.size(); ++i) TW_RETURN_IF_ERROR(visit(i));
    return drop_dead(result_);
  }

 private:
  Status visit(size_t i) {
    const Operator& op = *order_[i];
    if (is_reshape(op) && is_behind_a_reduction(i)) sources_[op.name()] = op.inputs[0];
    if (is_elementwise(op) && !is_reshape(op))
      for (const std::string& tensor : op.inputs)
        if (sources_.contains(tensor) && uses_.is_only_reader(i, tensor)) {
          TW_TRY(const bool is_done, sink(op, sources_.at(tensor)));
          if (is_done) return {};
        }
    result_.operators.push_back(op);
    return {};
  }

  /// Whether an elementwise operator before this reshape could become part of a kernel.
  bool is_behind_a_reduction(size_t i) const {
    const std::string& tensor = order_[i]->inputs[0];
    const auto writer = uses_.writer(tensor);
    return writer && uses_.is_only_reader(i, tensor) &&
           has_reduction(order_[*writer]->workload.compute);
  }

  /// Replaces the operator by one on tensors of the source's shape, and a reshape.
  Result<bool> sink(const Operator& op, const std::string& source) {
    const Shape& from = types_.at(source).shape;
    const Reindex reindex(op, from);
    const auto compute = reindex.run();
    if (!compute) return false;
    std::vector<std::string> inputs = op.inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (reindex.is_of_the_shape(compute->inputs[i].name)) {
        TW_TRY(inputs[i], reshaped(inputs[i], from));
      }
    const std::string before = names_.make(op.name() + ".flat");
    TW_TRY(Operator moved, make_operator(*compute, inputs, {before}, result_.constants));
    types_[before] = {moved.workload.compute.stages.back().type, from};
    result_.operators.push_back(std::move(moved));
    TW_RETURN_IF_ERROR(add_reshape(before, op.name(), types_.at(op.name()).shape));
    sources_[op.name()] = before;
    return true;
  }

  /// The tensor in this shape: what it was reshaped from, or a new reshape of it.
  Result<std::string> reshaped(const std::string& tensor, const Shape& shape) {
    const auto source = sources_.find(tensor);
    if (source != sources_.end() && types_.at(source->second).shape == shape) return source->second;
    const std::string name = names_.make(tensor + ".flat");
    types_[name] = {types_.at(tensor).dtype, shape};
    if (const auto constant = result_.constants.find(tensor); constant != result_.constants.end()) {
      dsl::Array array = *constant->second.array;
      array.shape = shape;
      result_.constants[name] = make_constant(std::move(array));
      return name;
    }
    TW_RETURN_IF_ERROR(add_reshape(tensor, name, shape));
    return name;
  }

  Status add_reshape(const std::string& from, const std::string& to, const Shape& shape) {
    const TensorType& type = types_.at(from);
    TW_TRY(const dsl::Compute compute, reshape(type.dtype, type.shape, shape));
    TW_TRY(Operator op, make_operator(compute, {from}, {to}, result_.constants));
    result_.operators.push_back(std::move(op));
    return {};
  }

  Uses uses_;
  FreshNames names_;
  std::map<std::string, TensorType> types_;
  std::vector<const Operator*> order_;
  Graph result_;
  std::map<std::string, std::string> sources_;  ///< result of a reshape -> the tensor before
};

}  // namespace

Result<Graph> sink_reshapes(const Graph& graph) { return ReshapeSinker(graph).run(); }

}  // namespace tw::graph
