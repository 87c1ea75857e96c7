// SPDX-License-Identifier: Apache-2.0
// Losses of classification. They select the probability of the class that an index names by
// comparing the index with each class.
#include <fmt/format.h>

#include <algorithm>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {
namespace {

/// The axes of a loss over x [n, classes, ...] with targets [n, ...].
struct LossAxes {
  std::vector<Axis> targets;
  Axis c;

  /// Indices of x for the class `which`.
  std::vector<Expr> element(const Expr& which) const {
    std::vector<Expr> indices = at(targets);
    indices.insert(indices.begin() + 1, which);
    return indices;
  }
};

Result<LossAxes> loss_axes(const Node& node) {
  const Value &x = node.input(0), &target = node.input(1);
  TW_RETURN_IF_ERROR(check_float(node, x.type.dtype));
  Shape shape = x.type.shape;
  if (shape.size() < 2) return node.invalid("expected a batch and classes");
  const int64_t classes = shape[1];
  shape.erase(shape.begin() + 1);
  if (target.type.shape != shape || is_float(target.type.dtype) || target.type.dtype == Bool)
    return node.invalid("targets do not fit the scores");
  if (node.has_input(2) &&
      (node.input(2).type.shape != Shape{classes} || node.input(2).type.dtype != x.type.dtype))
    return node.invalid("expected a weight a class");
  return LossAxes{axes_of(shape), Axis("c", classes)};
}

/// Returns the weight of each target as an expression of type `type`; undefined if all weights are
/// 1. Ignored targets have the weight 0.
Result<Expr> target_weight(const Node& node, Declaration& declaration, const LossAxes& axes,
                           const Expr& target, DType type) {
  Expr weight;
  if (node.has_input(2)) {
    const Expr entry = cast(type, declaration.read(node.input(2))(axes.c));
    const Tensor chosen =
        compute("class_weight", axes.targets,
                sum(axes.c, select(eq(target, Expr(axes.c)), entry, number(entry, 0))));
    weight = chosen.read_at(at(axes.targets));
  }
  if (!node.has("ignore_index")) return weight;
  TW_TRY(const int64_t ignored, node.integer("ignore_index", 0));
  const Expr zero = dsl::constant(type, 0);
  return select(eq(target, Expr(ignored)), zero,
                weight.defined() ? weight : dsl::constant(type, 1));
}

/// Returns the stage of the loss, reduced as the attribute `reduction` asks. `log_probability` is
/// the logarithm of the probability of the class axes.c.
Result<Tensor> loss_of(const Node& node, Declaration& declaration, const LossAxes& axes,
                       const Expr& log_probability) {
  TW_TRY(const std::string reduction, node.text("reduction", "mean"));
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return node.invalid(fmt::format("reduction='{}'", reduction));
  const DType type = node.input(0).type.dtype;
  const Expr target = cast(Int64, declaration.read(node.input(1)).read_at(at(axes.targets)));
  const Expr zero = number(log_probability, 0);
  const Tensor chosen = compute(
      "chosen", axes.targets, sum(axes.c, select(eq(target, Expr(axes.c)), log_probability, zero)));
  TW_TRY(const Expr weight, target_weight(node, declaration, axes, target, zero.type()));
  Expr loss = -chosen.read_at(at(axes.targets));
  if (weight.defined()) loss = weight * loss;
  if (reduction == "none") return compute("out", axes.targets, cast(type, loss));
  const std::vector<Axis> none;
  const Tensor sum_of_losses = compute("losses", none, sum(axes.targets, loss));
  if (reduction == "sum") return compute("out", none, cast(type, sum_of_losses()));
  double count = 1;
  for (const Axis& axis : axes.targets) count *= static_cast<double>(axis.extent);
  if (count == 0) return node.invalid("the mean of nothing");
  Expr divisor = number(zero, count);
  if (weight.defined()) divisor = compute("weights", none, sum(axes.targets, weight))();
  return compute("out", none, cast(type, sum_of_losses() / divisor));
}

}  // namespace

Status convert_negative_log_likelihood(const Node& node, Builder& builder) {
  TW_TRY(const LossAxes axes, loss_axes(node));
  Declaration declaration(builder);
  const Expr x = wide(declaration.read(node.input(0)).read_at(axes.element(axes.c)));
  TW_TRY(const Tensor loss, loss_of(node, declaration, axes, x));
  return declaration.add(loss, node.outputs[0]);
}

Status convert_softmax_cross_entropy(const Node& node, Builder& builder) {
  TW_TRY(const LossAxes axes, loss_axes(node));
  Declaration declaration(builder);
  const Tensor in = declaration.read(node.input(0));
  const Expr x = wide(in.read_at(axes.element(axes.c)));
  const std::vector<Expr> row = at(axes.targets);
  const Tensor peak = compute("peak", axes.targets, max_over({axes.c}, x));
  const Tensor total = compute("total", axes.targets, sum(axes.c, exp(x - peak.read_at(row))));
  const Expr log_probability = x - peak.read_at(row) - log(total.read_at(row));
  TW_TRY(const Tensor loss, loss_of(node, declaration, axes, log_probability));
  std::vector<Axis> all = axes.targets;
  all.insert(all.begin() + 1, axes.c);
  const DType type = node.input(0).type.dtype;
  return declaration.add({loss, compute("log_probability", all, cast(type, log_probability))},
                         node.outputs);
}

}  // namespace tw::graph::onnx
