// SPDX-License-Identifier: Apache-2.0
// Merges convolutions that read one tensor and whose results are concatenated:
//
//   a = conv2d(x, v) k=16
//   b = conv2d(x, w) k=32        y = conv2d(x, v and w) k=48
//   y = concat(a, b)        ->

#include <algorithm>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

/// Returns the attributes in which siblings must agree: all except the number of output channels.
dsl::Attributes without_channels(dsl::Attributes attributes) {
  attributes.erase("k");
  return attributes;
}

bool is_plain_1x1(const Operator& op) {
  if (op.workload.op != "conv2d") return false;
  const dsl::Attributes& a = op.workload.attributes;
  return a.at("r") == 1 && a.at("s") == 1 && a.at("groups") == 1 && a.at("residual") == 0 &&
         a.at("k") > 0;
}

bool are_siblings(const Operator& a, const Operator& b) {
  return is_plain_1x1(a) && is_plain_1x1(b) && a.inputs[0] == b.inputs[0] &&
         a.workload.dtype == b.workload.dtype && a.workload.accuracy == b.workload.accuracy &&
         without_channels(a.workload.attributes) == without_channels(b.workload.attributes);
}

/// Concatenates constants along their first dimension.
Result<dsl::Array> stacked(const std::vector<const dsl::Array*>& parts) {
  std::vector<int64_t> shape = parts.front()->shape;
  shape[0] = 0;
  for (const dsl::Array* part : parts) shape[0] += part->shape[0];
  TW_TRY(dsl::Array all, dsl::Array::make(parts.front()->type, shape));
  auto at = all.data.begin();
  for (const dsl::Array* part : parts) at = std::ranges::copy(part->data, at).out;
  return all;
}

class SiblingMerger {
 public:
  explicit SiblingMerger(const Graph& graph)
      : uses_(graph),
        names_(graph),
        types_(tensor_types(graph)),
        result_(graph),
        operators_(as_list(graph)) {}

  Result<Graph> run() {
    for (size_t i = 0; i < result_.operators.size(); ++i) TW_RETURN_IF_ERROR(visit(i));
    Graph result = std::move(result_);
    result.operators.clear();
    for (size_t i = 0; i < operators_.size(); ++i) {
      for (Operator& merged : before_[i]) result.operators.push_back(std::move(merged));
      if (operators_[i]) result.operators.push_back(std::move(*operators_[i]));
    }
    return drop_dead(result);
  }

 private:
  Status visit(size_t i) {
    const Operator op = result_.operators[i];
    const auto concatenation = as_concatenation(op);
    if (!concatenation || concatenation->dimension != 1) return {};
    std::vector<std::string> tensors;
    for (const size_t input : concatenation->inputs) tensors.push_back(op.inputs[input]);
    std::vector<std::string> left;
    for (size_t first = 0; first < tensors.size();) {
      const size_t end = end_of_siblings(i, tensors, first);
      if (end == first + 1) {
        left.push_back(tensors[first]);
      } else {
        const bool is_all = first == 0 && end == tensors.size();
        TW_TRY(Operator merged, merge({tensors.begin() + static_cast<std::ptrdiff_t>(first),
                                       tensors.begin() + static_cast<std::ptrdiff_t>(end)},
                                      is_all ? op.name() : names_.make(op.name() + ".part")));
        left.push_back(merged.name());
        before_[i].push_back(std::move(merged));
      }
      first = end;
    }
    return left.size() == tensors.size() ? Status{} : replace(i, op, left);
  }

  /// Returns the end (exclusive) of the run of `tensors` from `first` on that siblings write and
  /// that only operator i reads. The run has at least one tensor.
  size_t end_of_siblings(size_t i, const std::vector<std::string>& tensors, size_t first) const {
    const auto sibling = [&](size_t at) -> const Operator* {
      const bool is_once = std::ranges::count(tensors, tensors[at]) == 1;
      const auto writer = uses_.writer(tensors[at]);
      return is_once && writer && uses_.is_only_reader(i, tensors[at]) ? &result_.operators[*writer]
                                                                       : nullptr;
    };
    const Operator* one = sibling(first);
    size_t end = first + 1;
    while (one && end < tensors.size() && sibling(end) && are_siblings(*one, *sibling(end))) ++end;
    return end;
  }

  /// Returns one convolution in place of the convolutions that write `tensors`, which are removed.
  Result<Operator> merge(const std::vector<std::string>& tensors, const std::string& output) {
    Operator merged = result_.operators[*uses_.writer(tensors.front())];
    int64_t channels = 0;
    std::vector<std::vector<const dsl::Array*>> parts(merged.inputs.size());
    for (const std::string& tensor : tensors) {
      const size_t writer = *uses_.writer(tensor);
      const Operator& op = result_.operators[writer];
      channels += op.workload.attributes.at("k");
      for (size_t i = 1; i < op.inputs.size(); ++i)
        parts[i].push_back(result_.constants.at(op.inputs[i]).array.get());
      operators_[writer].reset();
    }
    dsl::Attributes attributes = merged.workload.attributes;
    attributes["k"] = channels;
    TW_TRY(merged.workload, dsl::make_workload("conv2d", attributes, merged.workload.dtype,
                                               merged.workload.accuracy));
    for (size_t i = 1; i < parts.size(); ++i) {
      TW_TRY(dsl::Array all, stacked(parts[i]));
      merged.inputs[i] = names_.make(merged.inputs[i] + ".stacked");
      result_.constants[merged.inputs[i]] = make_constant(std::move(all));
    }
    merged.outputs = {output};
    return merged;
  }

  /// Replaces the concatenation by a concatenation of the tensors `left`. If `left` is a single
  /// tensor, only removes the concatenation.
  Status replace(size_t i, const Operator& op, const std::vector<std::string>& left) {
    operators_[i].reset();
    if (left.size() == 1) return {};
    std::vector<std::vector<int64_t>> shapes;
    for (const std::string& tensor : left) shapes.push_back(shape_of(i, tensor));
    TW_TRY(const dsl::Compute compute, concatenate(op.workload.compute.stages[0].type, shapes, 1));
    TW_TRY(operators_[i], make_operator(compute, left, op.outputs, result_.constants));
    return {};
  }

  std::vector<int64_t> shape_of(size_t i, const std::string& tensor) const {
    for (const Operator& merged : before_.at(i))
      if (merged.name() == tensor) return merged.workload.compute.stages.back().shape();
    return types_.at(tensor).shape;
  }

  Uses uses_;
  FreshNames names_;
  std::map<std::string, TensorType> types_;
  Graph result_;
  std::vector<std::optional<Operator>> operators_;
  /// New operators, by the index of the operator that follows them.
  std::map<size_t, std::vector<Operator>> before_;
};

}  // namespace

Result<Graph> merge_siblings(const Graph& graph) { return SiblingMerger(graph).run(); }

}  // namespace tw::graph
