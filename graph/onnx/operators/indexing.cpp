// SPDX-License-Identifier: Apache-2.0
// Operators whose indices are data. The expression language cannot use data as an index, so an
// element is selected by comparison: sum(v) select(index == v, table[v], 0). The loops of kernels
// shrink to the one row that the index names (docs/expressions.md). The work is limited where each
// element of the result would be compared with many positions.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/integer.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {
namespace {

constexpr int64_t most_comparisons = int64_t{1} << 36;

/// Fails with Unsupported if the product of these counts, the number of comparisons, is too large.
Status check_comparisons(const Node& node, const std::vector<int64_t>& counts) {
  const auto work = checked_product(counts);
  if (work && *work <= most_comparisons) return {};
  return node.unsupported("too many elements for a choice by comparison");
}

Status check_index(const Node& node, const Value& value) {
  if (value.type.dtype == Int32 || value.type.dtype == Int64) return {};
  return node.invalid(
      fmt::format("'{}' is {}: expected indices", value.name, to_string(value.type.dtype)));
}

/// Returns an index as i64. A negative index counts from the end of `extent` elements.
Expr position(const Expr& index, int64_t extent) {
  const Expr i = cast(Int64, index);
  return select(i < Expr(0), i + Expr(extent), i);
}

bool has_negative(const Value& indices) {
  if (!indices.constant) return true;
  const dsl::Array& array = *indices.constant->array;
  for (int64_t i = 0; i < array.size(); ++i)
    if (array.get_int(i) < 0) return true;
  return false;
}

/// Returns the position, among `extent` elements, that the element of the tensor `indices` at
/// `where` names.
Expr position_at(Declaration& declaration, const Value& indices, const std::vector<Expr>& where,
                 int64_t extent) {
  const Expr index = declaration.read(indices).read_at(where);
  return has_negative(indices) ? position(index, extent) : cast(Int64, index);
}

// ---- gathers --------------------------------------------------------------------------------

/// Indices that are known and equally spaced: first + step * i.
struct Progression {
  int64_t first, step;
};

std::optional<Progression> progression_of(const Value& indices, int64_t extent) {
  if (!indices.constant || indices.rank() > 1 || extent_of(indices.type.shape) == 0)
    return std::nullopt;
  const dsl::Array& array = *indices.constant->array;
  const auto get = [&](int64_t i) {
    const int64_t index = array.get_int(i);
    return index < 0 ? index + extent : index;
  };
  const Progression found = {get(0), array.size() > 1 ? get(1) - get(0) : 0};
  for (int64_t i = 0; i < array.size(); ++i)
    if (get(i) < 0 || get(i) >= extent || get(i) != found.first + found.step * i)
      return std::nullopt;
  return found;
}

Status add_gather(const Node& node, Builder& builder, const Value& value, const Value& indices,
                  size_t axis, const std::string& output) {
  TW_RETURN_IF_ERROR(check_index(node, indices));
  const Shape &from = value.type.shape, &names = indices.type.shape;
  Shape shape(from.begin(), from.begin() + static_cast<int64_t>(axis));
  shape.insert(shape.end(), names.begin(), names.end());
  shape.insert(shape.end(), from.begin() + static_cast<int64_t>(axis) + 1, from.end());
  const std::vector<Axis> o = axes_of(shape);
  std::vector<Expr> where, element;
  for (size_t i = 0; i < axis; ++i) element.emplace_back(o[i]);
  for (size_t i = 0; i < names.size(); ++i) where.emplace_back(o[axis + i]);
  element.emplace_back();
  for (size_t i = axis + names.size(); i < o.size(); ++i) element.emplace_back(o[i]);
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  if (const auto known = progression_of(indices, from[axis])) {
    const Expr steps = where.empty() ? Expr(0) : where[0] * Expr(known->step);
    element[axis] = steps + Expr(known->first);
    return declaration.add(compute("out", o, in.read_at(element)), output);
  }
  const Axis row("v", from[axis]);
  element[axis] = row;
  const Expr at_row = summable(in.read_at(element));
  const Expr named = position_at(declaration, indices, where, from[axis]);
  const Expr chosen = select(eq(named, Expr(row)), at_row, number(at_row, 0));
  return declaration.add(reduced(o, sum(row, chosen), value.type.dtype), output);
}

}  // namespace

Status convert_gather(const Node& node, Builder& builder) {
  TW_TRY(const size_t axis, axis_attribute(node, 0, node.input(0).rank()));
  return add_gather(node, builder, node.input(0), node.input(1), axis, node.outputs[0]);
}

Status convert_compress(const Node& node, Builder& builder) {
  TW_TRY(const std::vector<int64_t> condition, node.constant_integers(1));
  Value value = node.input(0);
  if (!node.has("axis")) {
    TW_TRY(value, reshaped(builder, value, {extent_of(value.type.shape)}));
  }
  TW_TRY(const size_t axis, axis_attribute(node, 0, value.rank()));
  std::vector<int64_t> kept;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i]) kept.push_back(static_cast<int64_t>(i));
  if (!kept.empty() && kept.back() >= value.type.shape[axis])
    return node.invalid("the condition is longer than the axis");
  TW_TRY(dsl::Array indices, dsl::Array::make(Int64, {static_cast<int64_t>(kept.size())}));
  for (size_t i = 0; i < kept.size(); ++i) indices.set_int(static_cast<int64_t>(i), kept[i]);
  const std::string name = builder.fresh_name(node.outputs[0]);
  TW_RETURN_IF_ERROR(builder.add_constant(name, std::move(indices)));
  return add_gather(node, builder, value, builder.value(name), axis, node.outputs[0]);
}

Status convert_gather_elements(const Node& node, Builder& builder) {
  const Value &value = node.input(0), &indices = node.input(1);
  TW_RETURN_IF_ERROR(check_index(node, indices));
  TW_TRY(const size_t axis, axis_attribute(node, 0, value.rank()));
  const Shape& shape = indices.type.shape;
  if (indices.rank() != value.rank()) return node.invalid("indices and data differ in rank");
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != axis && shape[i] > value.type.shape[i]) return node.invalid("too many indices");
  const std::vector<Axis> o = axes_of(shape);
  const Axis row("v", value.type.shape[axis]);
  std::vector<Expr> element = at(o);
  element[axis] = row;
  Declaration declaration(builder);
  const Expr at_row = summable(declaration.read(value).read_at(element));
  const Expr named = position_at(declaration, indices, at(o), row.extent);
  const Expr chosen = select(eq(named, Expr(row)), at_row, number(at_row, 0));
  return declaration.add(reduced(o, sum(row, chosen), value.type.dtype), node.outputs[0]);
}

Status convert_gather_nd(const Node& node, Builder& builder) {
  const Value &value = node.input(0), &indices = node.input(1);
  TW_RETURN_IF_ERROR(check_index(node, indices));
  TW_TRY(const int64_t batch, node.integer("batch_dims", 0));
  const Shape &from = value.type.shape, &names = indices.type.shape;
  if (names.empty() || batch < 0 || batch >= indices.rank() || batch > value.rank() ||
      names.back() > value.rank() - batch)
    return node.invalid("an index has more elements than the data has dimensions");
  const auto first = static_cast<size_t>(batch), count = static_cast<size_t>(names.back());
  Shape shape(names.begin(), names.end() - 1);
  shape.insert(shape.end(), from.begin() + batch + names.back(), from.end());
  const std::vector<Axis> o = axes_of(shape);
  const std::vector<Axis> rows =
      axes_of(Shape(from.begin() + batch, from.begin() + batch + names.back()), "v");
  Declaration declaration(builder);
  std::vector<Expr> element, matches;
  for (size_t i = 0; i < first; ++i) element.emplace_back(o[i]);
  for (size_t j = 0; j < count; ++j) {
    std::vector<Expr> where(o.begin(), o.begin() + static_cast<int64_t>(names.size()) - 1);
    where.emplace_back(static_cast<int64_t>(j));
    const Expr named = position_at(declaration, indices, where, rows[j].extent);
    matches.push_back(eq(named, Expr(rows[j])));
    element.emplace_back(rows[j]);
  }
  for (size_t i = names.size() - 1; i < o.size(); ++i) element.emplace_back(o[i]);
  const Expr at_row = summable(declaration.read(value).read_at(element));
  if (rows.empty()) return node.unsupported("indices without elements");
  const Expr chosen = select(all_of(matches), at_row, number(at_row, 0));
  return declaration.add(reduced(o, sum(rows, chosen), value.type.dtype), node.outputs[0]);
}

Status convert_one_hot(const Node& node, Builder& builder) {
  const Value &indices = node.input(0), &values = node.input(2);
  TW_TRY(const std::vector<double> depth, node.constant_numbers(1));
  if (depth.size() != 1 || depth[0] < 1 || depth[0] > 1e12) return node.invalid("no such depth");
  const auto extent = static_cast<int64_t>(depth[0]);
  if (values.type.shape != Shape{2}) return node.invalid("expected the values [off, on]");
  TW_TRY(const size_t axis, axis_attribute(node, -1, indices.rank() + 1));
  Shape shape = indices.type.shape;
  shape.insert(shape.begin() + static_cast<int64_t>(axis), extent);
  const std::vector<Axis> o = axes_of(shape);
  std::vector<Expr> where = at(o);
  where.erase(where.begin() + static_cast<int64_t>(axis));
  Declaration declaration(builder);
  const Expr named = position(declaration.read(indices).read_at(where), extent);
  const Tensor off_on = declaration.read(values);
  const Expr element = select(eq(named, Expr(o[axis])), off_on(1), off_on(0));
  return declaration.add(compute("out", o, element), node.outputs[0]);
}

Status convert_reverse_sequence(const Node& node, Builder& builder) {
  const Value &value = node.input(0), &lengths = node.input(1);
  TW_RETURN_IF_ERROR(check_index(node, lengths));
  TW_TRY(const int64_t given_time, node.integer("time_axis", 0));
  TW_TRY(const int64_t given_batch, node.integer("batch_axis", 1));
  TW_TRY(const size_t time, axis_of(node, given_time, value.rank()));
  TW_TRY(const size_t batch, axis_of(node, given_batch, value.rank()));
  if (lengths.type.shape != Shape{value.type.shape[batch]})
    return node.invalid("expected a length a batch");
  const std::vector<Axis> o = axes_of(value.type.shape);
  const Axis step("v", value.type.shape[time]);
  std::vector<Expr> element = at(o);
  element[time] = step;
  Declaration declaration(builder);
  const Expr at_step = summable(declaration.read(value).read_at(element));
  const Expr length = cast(Int64, declaration.read(lengths)(o[batch]));
  const Expr now = o[time];
  const Expr named = select(now < length, length - Expr(1) - now, now);
  const Expr chosen = select(eq(named, Expr(step)), at_step, number(at_step, 0));
  return declaration.add(reduced(o, sum(step, chosen), value.type.dtype), node.outputs[0]);
}

// ---- scatters -------------------------------------------------------------------------------

namespace {

/// The combination of a scatter's updates with the elements that its indices name.
struct Update {
  dsl::Combine combine = dsl::Combine::Sum;
  bool replaces = true;  ///< true for "none": an update replaces the element
};

Result<Update> update_of(const Node& node) {
  TW_TRY(const std::string reduction, node.text("reduction", "none"));
  if (reduction == "none") return Update{};
  if (reduction == "add") return Update{dsl::Combine::Sum, false};
  if (reduction == "mul") return Update{dsl::Combine::Prod, false};
  if (reduction == "max") return Update{dsl::Combine::Max, false};
  if (reduction == "min") return Update{dsl::Combine::Min, false};
  return node.unsupported(fmt::format("reduction='{}'", reduction));
}

Expr combined(dsl::Combine combine, const Expr& a, const Expr& b) {
  if (combine == dsl::Combine::Sum) return a + b;
  if (combine == dsl::Combine::Prod) return a * b;
  return combine == dsl::Combine::Max ? max(a, b) : min(a, b);
}

/// The updates of one element of the result: `update` for those values of the axes `over` for which
/// `is_named` holds.
struct Updates {
  std::vector<Axis> over;
  Expr is_named, update;
};

/// Adds the tensor `output`: `data`, with the updates applied as `how` says.
Status add_scatter(Declaration& declaration, const Value& data, const std::vector<Axis>& o,
                   const Updates& updates, const Update& how, const std::string& output) {
  const auto& [over, is_named, update] = updates;
  const Expr before = declaration.read(data).read_at(at(o));
  const Expr value = summable(update);
  const Expr neutral = dsl::identity(how.combine, value.type());
  const Tensor total =
      compute("total", o, dsl::Reduction{how.combine, over, select(is_named, value, neutral)});
  const Expr all = total.read_at(at(o));
  Expr result;
  if (how.replaces) {
    const Expr one = dsl::constant_int(Int32, 1), zero = dsl::constant_int(Int32, 0);
    const Tensor named = compute("named", o, sum(over, select(is_named, one, zero)));
    result = select(zero < named.read_at(at(o)), all, summable(before));
  } else {
    result = combined(how.combine, summable(before), all);
  }
  return declaration.add(compute("out", o, cast(data.type.dtype, result)), output);
}

}  // namespace

Status convert_scatter_elements(const Node& node, Builder& builder) {
  const Value &data = node.input(0), &indices = node.input(1), &updates = node.input(2);
  TW_RETURN_IF_ERROR(check_index(node, indices));
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 2}));
  TW_TRY(const size_t axis, axis_attribute(node, 0, data.rank()));
  TW_TRY(const Update how, update_of(node));
  const Shape &shape = data.type.shape, &names = indices.type.shape;
  if (names.size() != shape.size() || updates.type.shape != names)
    return node.invalid("indices and updates differ in shape");
  TW_RETURN_IF_ERROR(check_comparisons(node, {extent_of(shape), names[axis]}));
  const std::vector<Axis> o = axes_of(shape);
  const Axis k("k", names[axis]);
  std::vector<Expr> element = at(o), conditions;
  element[axis] = k;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i == axis) continue;
    if (names[i] > shape[i]) return node.invalid("too many indices");
    if (names[i] < shape[i]) conditions.push_back(Expr(o[i]) < Expr(names[i]));
  }
  Declaration declaration(builder);
  conditions.push_back(eq(position_at(declaration, indices, element, shape[axis]), Expr(o[axis])));
  const Expr update = declaration.read(updates).read_at(element);
  return add_scatter(declaration, data, o, {{k}, all_of(conditions), update}, how, node.outputs[0]);
}

Status convert_scatter_nd(const Node& node, Builder& builder) {
  const Value &data = node.input(0), &indices = node.input(1), &updates = node.input(2);
  TW_RETURN_IF_ERROR(check_index(node, indices));
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 2}));
  TW_TRY(const Update how, update_of(node));
  const Shape &shape = data.type.shape, &names = indices.type.shape;
  if (names.empty() || names.back() > data.rank()) return node.invalid("indices of no element");
  const auto count = static_cast<size_t>(names.back());
  Shape expected(names.begin(), names.end() - 1);
  const std::vector<Axis> k = axes_of(expected, "k");
  expected.insert(expected.end(), shape.begin() + names.back(), shape.end());
  if (updates.type.shape != expected) return node.invalid("updates do not fit the indices");
  if (k.empty()) return node.unsupported("a single index");
  TW_RETURN_IF_ERROR(
      check_comparisons(node, {extent_of(shape), extent_of(names, 0, names.size() - 1)}));
  const std::vector<Axis> o = axes_of(shape);
  Declaration declaration(builder);
  std::vector<Expr> conditions, element = at(k);
  for (size_t j = 0; j < count; ++j) {
    std::vector<Expr> where = at(k);
    where.emplace_back(static_cast<int64_t>(j));
    conditions.push_back(eq(position_at(declaration, indices, where, shape[j]), Expr(o[j])));
  }
  for (size_t i = count; i < shape.size(); ++i) element.emplace_back(o[i]);
  const Expr update = declaration.read(updates).read_at(element);
  return add_scatter(declaration, data, o, {k, all_of(conditions), update}, how, node.outputs[0]);
}

// ---- running totals and the largest ---------------------------------------------------------

Status convert_running_total(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const std::vector<int64_t> given, node.constant_integers(1));
  if (given.size() != 1) return node.invalid("expected one axis");
  TW_TRY(const size_t axis, axis_of(node, given[0], value.rank()));
  TW_TRY(const int64_t exclusive, node.integer("exclusive", 0));
  TW_TRY(const int64_t reverse, node.integer("reverse", 0));
  const std::vector<Axis> o = axes_of(value.type.shape);
  const Expr k = dsl::var("k"), here = o[axis];
  const Expr last(value.type.shape[axis] - 1);
  std::vector<Expr> element = at(o), mirrored = at(o);
  element[axis] = reverse ? last - k : k;
  mirrored[axis] = last - here;
  Declaration declaration(builder);
  const Expr term = summable(declaration.read(value).read_at(element));
  const Expr range = exclusive ? k < here : k <= here;
  const dsl::Reduction scan = node.op_type == "CumProd" ? prod(range, term) : dsl::sum(range, term);
  if (!reverse) return declaration.add(reduced(o, scan, value.type.dtype), node.outputs[0]);
  const Tensor backwards = compute("backwards", o, scan);
  const Expr result = cast(value.type.dtype, backwards.read_at(mirrored));
  return declaration.add(compute("out", o, result), node.outputs[0]);
}

Status convert_top_k(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const std::vector<int64_t> k, node.constant_integers(1));
  TW_TRY(const size_t axis, axis_attribute(node, -1, value.rank()));
  TW_TRY(const int64_t largest, node.integer("largest", 1));
  const int64_t extent = value.type.shape[axis];
  if (k.size() != 1 || k[0] < 0 || k[0] > extent) return node.invalid("no such number of elements");
  if (value.type.dtype == Bool) return node.unsupported("the data type bool");
  TW_RETURN_IF_ERROR(check_comparisons(node, {extent_of(value.type.shape), extent}));
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  // The rank of an element is the number of elements that stand before it in the sorted order.
  // Equal elements keep their order.
  const std::vector<Axis> axes = axes_of(value.type.shape);
  const Axis other("v", extent);
  std::vector<Expr> there = at(axes);
  there[axis] = other;
  const Expr a = in.read_at(there), b = in.read_at(at(axes));
  const Expr is_before = (largest ? b < a : a < b) || (eq(a, b) && Expr(other) < Expr(axes[axis]));
  const Tensor rank = compute("rank", axes, sum(other, select(is_before, Expr(1), Expr(0))));
  Shape shape = value.type.shape;
  shape[axis] = k[0];
  const std::vector<Axis> o = axes_of(shape, "o");
  std::vector<Expr> element = at(o);
  element[axis] = other;
  const Expr is_chosen = eq(rank.read_at(element), Expr(o[axis]));
  const Expr chosen = wide(in.read_at(element));
  const Tensor values =
      reduced(o, sum(other, select(is_chosen, chosen, number(chosen, 0))), value.type.dtype);
  const Tensor indices = compute("indices", o, sum(other, select(is_chosen, Expr(other), Expr(0))));
  return declaration.add({values, indices}, node.outputs);
}

Status convert_tensor_scatter(const Node& node, Builder& builder) {
  const Value &cache = node.input(0), &update = node.input(1);
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1}));
  TW_TRY(const std::string mode, node.text("mode", "linear"));
  if (mode != "linear" && mode != "circular")
    return node.unsupported(fmt::format("mode='{}'", mode));
  TW_TRY(const size_t axis, axis_attribute(node, -2, cache.rank()));
  const Shape& shape = cache.type.shape;
  const Shape& written = update.type.shape;
  if (written.size() != shape.size() || axis == 0 || written[axis] > shape[axis] ||
      shape[axis] == 0)
    return node.invalid("the update does not fit the cache");
  const std::vector<Axis> o = axes_of(shape);
  Declaration declaration(builder);
  Expr begin(0);
  if (node.has_input(2)) {
    TW_RETURN_IF_ERROR(check_index(node, node.input(2)));
    if (node.input(2).type.shape != Shape{shape[0]})
      return node.invalid("expected an index a batch");
    begin = cast(Int64, declaration.read(node.input(2))(o[0]));
  }
  Expr named = Expr(o[axis]) - begin;
  if (mode == "circular") named = named % Expr(shape[axis]);
  const Axis k("k", written[axis]);
  std::vector<Expr> element = at(o);
  element[axis] = k;
  const Expr is_named = eq(named, Expr(k));
  const Expr value = declaration.read(update).read_at(element);
  return add_scatter(declaration, cache, o, {{k}, is_named, value}, Update{}, node.outputs[0]);
}

}  // namespace tw::graph::onnx
