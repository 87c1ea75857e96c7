// SPDX-License-Identifier: Apache-2.0
// Reductions over some dimensions.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/rows.h"

namespace tw::graph::onnx {
namespace {

/// A reduction of ONNX, with the functions that it applies to each element before the reduction and
/// to the total after it.
struct ReductionKind {
  std::string_view op_type;
  dsl::Combine combine;
  bool needs_float;
  Expr (*before)(const Expr& x);
  Expr (*after)(const Expr& total, double length);
};

Expr same(const Expr& x) { return x; }
Expr same_total(const Expr& total, double) { return total; }
Expr squared(const Expr& x) { return x * x; }
Expr magnitude(const Expr& x) { return is_signed(x.type()) ? abs(x) : x; }

using dsl::Combine;

constexpr ReductionKind reduction_kinds[] = {
    {"ReduceL1", Combine::Sum, false, magnitude, same_total},
    {"ReduceL2", Combine::Sum, true, squared,
     [](const Expr& total, double) { return sqrt(total); }},
    {"ReduceLogSum", Combine::Sum, true, same,
     [](const Expr& total, double) { return log(total); }},
    {"ReduceMax", Combine::Max, false, same, same_total},
    {"ReduceMean", Combine::Sum, true, same,
     [](const Expr& total, double length) { return total / number(total, length); }},
    {"ReduceMin", Combine::Min, false, same, same_total},
    {"ReduceProd", Combine::Prod, false, same, same_total},
    {"ReduceSum", Combine::Sum, false, same, same_total},
    {"ReduceSumSquare", Combine::Sum, false, squared, same_total},
};

/// Returns the dimensions that the node reduces. They are an input from opset 13 or 18 on,
/// depending on the operator, and an attribute before.
Result<std::vector<size_t>> reduced_dimensions(const Node& node) {
  const int64_t rank = node.input(0).rank();
  std::vector<int64_t> axes;
  if (node.has_input(1)) {
    TW_TRY(axes, node.constant_integers(1));
  } else {
    TW_TRY(axes, node.integers("axes", {}));
  }
  TW_TRY(const int64_t does_nothing, node.integer("noop_with_empty_axes", 0));
  if (axes.empty() && !does_nothing) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes_of_list(node, axes, rank);
}

}  // namespace

Status convert_reduction(const Node& node, Builder& builder) {
  const auto* kind = std::ranges::find(reduction_kinds, node.op_type, &ReductionKind::op_type);
  TW_CHECK(kind != std::end(reduction_kinds), "a row for each operator of the table");
  const DType type = node.input(0).type.dtype;
  if (kind->needs_float) TW_RETURN_IF_ERROR(check_float(node, type));
  TW_TRY(const std::vector<size_t> dimensions, reduced_dimensions(node));
  TW_TRY(const int64_t keeps, node.integer("keepdims", 1));
  const Rows rows(node.input(0).type.shape, dimensions);
  Declaration declaration(builder);
  const Expr x = summable(declaration.read(node.input(0)).read_at(rows.element()));
  const std::vector<Axis> out = rows.result(keeps != 0);
  const dsl::Reduction reduction = {kind->combine, rows.over, kind->before(x)};
  if (kind->after == same_total && type != Bool)
    return declaration.add(onnx::reduced(out, reduction, type), node.outputs[0]);
  if (rows.length() == 0 && node.op_type == "ReduceMean")
    return node.invalid("the mean of nothing");
  const Tensor total = compute("total", out, reduction);
  const Expr all = total.read_at(at(out));
  // Bools are reduced as i32, and a total above 0 is true. So the minimum of no elements is true,
  // and the maximum is false.
  const Expr result = type == Bool
                          ? number(all, 0) < all
                          : cast(type, kind->after(all, static_cast<double>(rows.length())));
  return declaration.add(compute("out", out, result), node.outputs[0]);
}

Status convert_reduce_log_sum_exp(const Node& node, Builder& builder) {
  const DType type = node.input(0).type.dtype;
  TW_RETURN_IF_ERROR(check_float(node, type));
  TW_TRY(const std::vector<size_t> dimensions, reduced_dimensions(node));
  TW_TRY(const int64_t keeps, node.integer("keepdims", 1));
  const Rows rows(node.input(0).type.shape, dimensions);
  const std::vector<Axis> out = rows.result(keeps != 0);
  Declaration declaration(builder);
  const Expr x = wide(declaration.read(node.input(0)).read_at(rows.element()));
  const Tensor peak = compute("peak", out, max_over(rows.over, x));
  const Expr highest = peak.read_at(at(out));
  const Tensor total = compute("total", out, sum(rows.over, exp(x - highest)));
  const Expr result = log(total.read_at(at(out))) + highest;
  return declaration.add(compute("out", out, cast(type, result)), node.outputs[0]);
}

// ---- positions of extremes ------------------------------------------------------------------

namespace {

/// Adds an ArgMax over the last dimension as the named operator `argmax`, on the value reshaped to
/// a matrix.
Status add_argmax(const Node& node, Builder& builder, const Shape& result) {
  const Value& value = node.input(0);
  const int64_t columns = value.type.shape.back();
  const int64_t rows = extent_of(value.type.shape, 0, value.type.shape.size() - 1);
  TW_TRY(const Value matrix, reshaped(builder, value, {rows, columns}));
  const std::string name = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(add_named(builder, "argmax", {{"rows", rows}, {"cols", columns}},
                               value.type.dtype, {matrix}, name));
  return add_reshape(builder, builder.value(name), result, node.outputs[0]);
}

}  // namespace

Status convert_arg_extreme(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  const DType type = value.type.dtype;
  const bool is_max = node.op_type == "ArgMax";
  if (type == Bool) return node.unsupported("the data type bool");
  TW_TRY(const size_t axis, axis_attribute(node, 0, value.rank()));
  TW_TRY(const int64_t keeps, node.integer("keepdims", 1));
  TW_TRY(const int64_t takes_last, node.integer("select_last_index", 0));
  const int64_t extent = value.type.shape[axis];
  if (extent == 0) return node.invalid("the axis has no elements");
  const Rows rows(value.type.shape, {axis});
  const std::vector<Axis> out = rows.result(keeps != 0);
  Shape shape;
  for (const Axis& dimension : out) shape.push_back(dimension.extent);
  if (is_max && !takes_last && axis + 1 == value.type.shape.size())
    return add_argmax(node, builder, shape);
  Declaration declaration(builder);
  const Expr x = declaration.read(value).read_at(rows.element());
  const Expr largest = dsl::identity(dsl::Combine::Min, type);
  const Expr least = dsl::identity(dsl::Combine::Max, type);
  // A NaN is replaced by the extreme value of the type, so that the comparisons below have no NaN
  // operand.
  const Expr key = is_float(type) ? select(x <= largest, x, is_max ? largest : least) : x;
  const Tensor peak =
      compute("peak", out, is_max ? max_over(rows.over, key) : min_over(rows.over, key));
  const Expr is_peak = eq(key, peak.read_at(at(out)));
  const Expr index = rows.over[0];
  const dsl::Reduction found = takes_last
                                   ? max_over(rows.over, select(is_peak, index, Expr(0)))
                                   : min_over(rows.over, select(is_peak, index, Expr(extent - 1)));
  return declaration.add(compute("out", out, found), node.outputs[0]);
}

}  // namespace tw::graph::onnx
