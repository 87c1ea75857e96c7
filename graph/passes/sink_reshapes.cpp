// SPDX-License-Identifier: Apache-2.0
// The importer turns a matrix product of a batch into a product of two matrices between reshapes.
// The bias and the activation then come after the second reshape. This pass moves bias and
// activation to before the second reshape, so that they can be fused into the product:
//
//   r = reshape(t) 1x128x768         u = t[m, n] + b[n]
//   y = r[i, j, k] + b[k]       ->   y = reshape(u) 1x128x768
//
// The bias and the activation of a grouped convolution, whose channels are two dimensions, are
// moved in the same way.

#include <fmt/format.h>

#include <algorithm>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using dsl::Expr;
using dsl::Read;
using Shape = std::vector<int64_t>;

/// Returns, for each dimension of the shape `to`, the dimensions of `from` that the reshape joins
/// into it; dimensions of extent 1 are left out. From [2, 3, 8] to [6, 8, 1], the result is {0, 1},
/// {2} and {}. The entry is empty for a dimension that is only a part of a dimension of `from`, as
/// from [8] to [2, 4], and for dimensions that are both joined and split.
std::vector<std::vector<size_t>> joined_dimensions(const Shape& from, const Shape& to) {
  const auto larger = [](const Shape& shape, size_t first, size_t end) {
    std::vector<size_t> found;
    for (size_t d = first; d < end; ++d)
      if (shape[d] != 1) found.push_back(d);
    return found;
  };
  std::vector<std::vector<size_t>> joined(to.size());
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
    const auto these = larger(to, first_to, j);
    if (a == b && these.size() == 1) joined[these[0]] = larger(from, first_from, i);
  }
  return joined;
}

/// Rewrites an elementwise operator so that it computes its elements in the shape `from`. A reshape
/// of the new result gives the former result.
class Reindex {
 public:
  /// Requires: a reshape turns arrays of shape `from` into the operator's shape.
  Reindex(const Operator& op, const Shape& from) : spelled_(in_canonical_names(op)) {
    const dsl::Stage& stage = spelled_.compute.stages.front();
    const auto joined = joined_dimensions(from, stage.shape());
    for (size_t i = 0; i < from.size(); ++i)
      axes_.emplace_back(fmt::format("from{}", i), from[i]);  // canonical axes have other names
    for (size_t i = 0; i < joined.size(); ++i)
      for (const size_t dimension : joined[i])
        parts_[stage.axes[i].name].push_back(axes_[dimension]);
    for (const dsl::Axis& axis : stage.axes)
      if (axis.extent == 1) units_.emplace(axis.name, Expr(0));
  }

  /// Rewrites the compute for the new shapes of its inputs; false if it needs an index that the new
  /// shape does not have.
  bool run() {
    dsl::Stage& stage = spelled_.compute.stages.front();
    const dsl::Stage former = stage;
    bool has_all = true;
    stage.body = dsl::transform(stage.body, [&](const Expr& node) -> std::optional<Expr> {
      const Read* r = node.as<Read>();
      if (!r) return std::nullopt;
      const auto changed = changed_read(*r, former);
      has_all = has_all && changed;
      return changed;
    });
    stage.body = dsl::substitute(stage.body, whole_axes(former));
    stage.axes = axes_;
    stage.letters.clear();
    for (dsl::Input& input : spelled_.compute.inputs) {
      input.shape = shapes_[input.name];
      input.letters.clear();
    }
    return has_all && dsl::validate(spelled_.compute);
  }

  const dsl::Compute& compute() const { return spelled_.compute; }
  const std::vector<std::string>& inputs() const { return spelled_.inputs; }

 private:
  /// Returns the read, indexed by the new axes; its tensor gets a new shape. nullopt if an index
  /// would be split, or if another read needs the tensor in a different shape.
  std::optional<Expr> changed_read(const Read& read, const dsl::Stage& stage) {
    const Shape former = spelled_.compute.shape_of(read.tensor);
    const bool is_whole = count_pointwise_reads(spelled_.compute, stage, read.tensor).has_value();
    std::vector<Expr> indices;
    Shape shape;
    const auto append = [&](const dsl::Axis& axis) {
      indices.emplace_back(axis);
      shape.push_back(axis.extent);
    };
    if (is_whole) std::ranges::for_each(axes_, append);
    for (size_t i = 0; !is_whole && i < former.size(); ++i) {
      const Expr index = dsl::substitute(read.indices[i], units_);
      const dsl::Var* v = index.as<dsl::Var>();
      if (v && !parts_.contains(v->name)) return std::nullopt;
      if (v) {
        std::ranges::for_each(parts_.at(v->name), append);
      } else {
        indices.push_back(index);
        shape.push_back(former[i]);
      }
    }
    const auto [known, is_new] = shapes_.emplace(read.tensor, shape);
    if (!is_new && known->second != shape) return std::nullopt;
    return dsl::read(read.tensor, std::move(indices), read.type);
  }

  /// Returns the replacements of the stage's axes outside of reads. An axis of one element is
  /// replaced by 0, any other axis by the new axis that equals it. If no new axis equals it,
  /// validate() rejects the result.
  dsl::Substitution whole_axes(const dsl::Stage& stage) const {
    dsl::Substitution replacements = units_;
    for (const dsl::Axis& axis : stage.axes) {
      const auto parts = parts_.find(axis.name);
      const bool is_one = parts != parts_.end() && parts->second.size() == 1;
      replacements.emplace(axis.name, is_one ? Expr(parts->second.front()) : dsl::var("no axis"));
    }
    return replacements;
  }

  Spelled spelled_;
  std::vector<dsl::Axis> axes_;  ///< the new axes, one for each dimension of `from`
  /// For a former axis, the new axes that are joined into it.
  std::map<std::string, std::vector<dsl::Axis>> parts_;
  dsl::Substitution units_;              ///< 0 for each former axis of extent 1
  std::map<std::string, Shape> shapes_;  ///< new shapes of inputs
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
    return remove_copies(result_);  // joins the new reshapes with the reshapes that read them
  }

 private:
  Status visit(size_t i) {
    const Operator& op = *order_[i];
    if (is_reshape(op) && hides_a_kernel(i)) sources_[op.name()] = op.inputs[0];
    if (is_elementwise(op) && !is_reshape(op))
      for (const std::string& tensor : op.inputs)
        if (sources_.contains(tensor) && types_.at(tensor).shape == types_.at(op.name()).shape) {
          TW_TRY(const bool is_done, sink(op, sources_.at(tensor)));
          if (is_done) return {};
        }
    result_.operators.push_back(op);
    return {};
  }

  /// True if an elementwise operator that moves before this reshape could be fused with the writer
  /// of the reshape's input. The writer has a reduction or is elementwise, and nothing but the
  /// reshape reads its result.
  bool hides_a_kernel(size_t reshape) const {
    const std::string& tensor = order_[reshape]->inputs[0];
    const auto writer = uses_.writer(tensor);
    return writer && uses_.is_only_reader(reshape, tensor) &&
           (has_reduction(order_[*writer]->workload.compute) || is_elementwise(*order_[*writer]));
  }

  /// Adds the operator on tensors of the source's shape, followed by a reshape to its former shape.
  /// Returns false, and adds nothing, if the operator cannot be rewritten.
  Result<bool> sink(const Operator& op, const std::string& source) {
    const Shape from = types_.at(source).shape;
    Reindex reindex(op, from);
    if (!reindex.run()) return false;
    const dsl::Compute& compute = reindex.compute();
    std::vector<std::string> inputs;
    for (size_t i = 0; i < compute.inputs.size(); ++i) {
      TW_TRY(std::string input, reshaped(reindex.inputs()[i], compute.inputs[i].shape));
      inputs.push_back(std::move(input));
    }
    const std::string before = names_.make(op.name() + ".flat");
    TW_TRY(Operator moved, make_operator(compute, inputs, {before}, result_.constants));
    types_[before] = {moved.workload.compute.stages.back().type, from};
    result_.operators.push_back(std::move(moved));
    TW_RETURN_IF_ERROR(add_reshape(before, op.name(), types_.at(op.name()).shape));
    sources_[op.name()] = before;
    return true;
  }

  /// Returns the name of the tensor in this shape: of the tensor from which it was reshaped, or of
  /// a new reshape or constant.
  Result<std::string> reshaped(const std::string& tensor, const Shape& shape) {
    if (types_.at(tensor).shape == shape) return tensor;
    const auto source = sources_.find(tensor);
    if (source != sources_.end() && types_.at(source->second).shape == shape) return source->second;
    std::string& name = reshaped_[{tensor, shape}];
    if (!name.empty()) return name;
    name = names_.make(tensor + ".flat");
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
  /// Result of a reshape -> the tensor that is reshaped.
  std::map<std::string, std::string> sources_;
  /// Reshaped tensors that were added.
  std::map<std::pair<std::string, Shape>, std::string> reshaped_;
};

}  // namespace

Result<Graph> sink_reshapes(const Graph& graph) { return ReshapeSinker(graph).run(); }

}  // namespace tw::graph
