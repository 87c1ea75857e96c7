// SPDX-License-Identifier: Apache-2.0
// Operators that move elements and compute nothing: their indices are affine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/integer.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/window.h"

namespace tw::graph::onnx {

// ---- reshapes -------------------------------------------------------------------------------

namespace {

/// Returns the shape of the result of a Reshape to `to`. An extent 0 keeps the input's extent in
/// this dimension, unless `zero_is_extent`. An extent -1 is replaced by the extent that makes the
/// numbers of elements equal.
Result<Shape> reshape_target(const Node& node, const Shape& from, Shape to, bool zero_is_extent) {
  std::optional<size_t> open;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !zero_is_extent) {
      if (i >= from.size()) return node.invalid(fmt::format("keeps dimension {}", i));
      to[i] = from[i];
    }
    if (to[i] == -1 && !open) {
      open = i;
    } else if (to[i] < 0) {
      return node.invalid(fmt::format("an extent of {}", to[i]));
    }
  }
  if (open) {
    to[*open] = 1;
    const auto rest = checked_product(to);
    const int64_t size = extent_of(from);
    if (!rest || *rest == 0 || size % *rest != 0)
      return node.invalid(
          fmt::format("[{}] has no shape like [{}]", fmt::join(from, ", "), fmt::join(to, ", ")));
    to[*open] = size / *rest;
  }
  if (checked_product(to) != extent_of(from))
    return node.invalid(
        fmt::format("[{}] to [{}]: sizes differ", fmt::join(from, ", "), fmt::join(to, ", ")));
  return to;
}

/// Returns the elements of an input, or of the attribute that it was in earlier opsets; `otherwise`
/// if the node has neither.
Result<std::vector<int64_t>> integers_of(const Node& node, size_t input, std::string_view attribute,
                                         const std::vector<int64_t>& otherwise) {
  if (node.has_input(input)) return node.constant_integers(input);
  return node.integers(attribute, otherwise);
}

}  // namespace

Status convert_reshape(const Node& node, Builder& builder) {
  TW_TRY(const int64_t zero_is_extent, node.integer("allowzero", 0));
  TW_TRY(const std::vector<int64_t> target, node.constant_integers(1));
  TW_TRY(const Shape shape,
         reshape_target(node, node.input(0).type.shape, target, zero_is_extent != 0));
  return add_reshape(builder, node.input(0), shape, node.outputs[0]);
}

Status convert_flatten(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(int64_t axis, node.integer("axis", 1));
  if (axis < -value.rank() || axis > value.rank()) return node.invalid("no such axis");
  if (axis < 0) axis += value.rank();
  const Shape& shape = value.type.shape;
  const auto split = static_cast<size_t>(axis);
  return add_reshape(builder, value,
                     {extent_of(shape, 0, split), extent_of(shape, split, shape.size())},
                     node.outputs[0]);
}

Status convert_squeeze(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const std::vector<int64_t> given, integers_of(node, 1, "axes", {}));
  TW_TRY(const std::vector<size_t> axes, axes_of_list(node, given, value.rank()));
  const bool all = !node.has_input(1) && !node.has("axes");
  Shape shape;
  for (size_t i = 0; i < value.type.shape.size(); ++i) {
    const int64_t extent = value.type.shape[i];
    const bool drop = all ? extent == 1 : std::ranges::find(axes, i) != axes.end();
    if (drop && extent != 1) return node.invalid(fmt::format("axis {} has {} elements", i, extent));
    if (!drop) shape.push_back(extent);
  }
  return add_reshape(builder, value, shape, node.outputs[0]);
}

Status convert_unsqueeze(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const std::vector<int64_t> given, integers_of(node, 1, "axes", {}));
  const int64_t rank = value.rank() + static_cast<int64_t>(given.size());
  TW_TRY(const std::vector<size_t> axes, axes_of_list(node, given, rank));
  Shape shape;
  auto next = value.type.shape.begin();
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i)
    shape.push_back(std::ranges::find(axes, i) != axes.end() ? 1 : *next++);
  return add_reshape(builder, value, shape, node.outputs[0]);
}

Status convert_transpose(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  std::vector<int64_t> reversed(value.type.shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  TW_TRY(const std::vector<int64_t> given, node.integers("perm", reversed));
  TW_TRY(const std::vector<size_t> order, axes_of_list(node, given, value.rank()));
  if (order.size() != reversed.size()) return node.invalid("perm names not all dimensions");
  return add_transpose(builder, value, order, node.outputs[0]);
}

// ---- joining and cutting --------------------------------------------------------------------

namespace {

/// A tensor of a concatenation, whose elements begin at position `begin` of the axis.
struct Part {
  Tensor tensor;
  int64_t begin;
};

/// Returns the element at `indices` of the concatenation of parts [first, last) along `axis`.
/// Selects form a balanced tree, because models may join hundreds of tensors.
Expr joined(const std::vector<Part>& parts, size_t first, size_t last,
            const std::vector<Expr>& indices, size_t axis) {
  if (last - first == 1) {
    std::vector<Expr> own = indices;
    own[axis] = own[axis] - Expr(parts[first].begin);
    return parts[first].tensor.read_at(own);
  }
  const size_t middle = (first + last) / 2;
  return select(indices[axis] < Expr(parts[middle].begin),
                joined(parts, first, middle, indices, axis),
                joined(parts, middle, last, indices, axis));
}

}  // namespace

Status convert_concat(const Node& node, Builder& builder) {
  TW_TRY(const std::vector<Value> values, inputs_from(node, 0));
  if (!node.has("axis")) return node.invalid("attribute 'axis' is missing");
  TW_TRY(const size_t axis, axis_attribute(node, 0, values[0].rank()));
  Declaration declaration(builder);
  std::vector<Part> parts;
  Shape shape = values[0].type.shape;
  shape[axis] = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    TW_RETURN_IF_ERROR(check_same_type(node, {0, i}));
    Shape others = values[i].type.shape;
    if (others.size() != shape.size()) return node.invalid("inputs differ in rank");
    const int64_t extent = std::exchange(others[axis], shape[axis]);
    if (others != shape) return node.invalid("shapes differ beside the axis");
    if (extent > 0) parts.push_back({declaration.read(values[i]), shape[axis]});
    shape[axis] += extent;
  }
  if (parts.empty()) parts.push_back({declaration.read(values[0]), 0});
  const std::vector<Axis> axes = axes_of(shape);
  return declaration.add(compute("out", axes, joined(parts, 0, parts.size(), at(axes), axis)),
                         node.outputs[0]);
}

namespace {

/// out[i] = in[begin + step * i] in each dimension.
struct Cut {
  int64_t begin = 0, step = 1, extent = 0;
};

Status add_cuts(Builder& builder, const Value& value, const std::vector<Cut>& cuts,
                const std::string& output) {
  Shape shape;
  std::vector<Expr> indices;
  for (size_t i = 0; i < cuts.size(); ++i) shape.push_back(cuts[i].extent);
  const std::vector<Axis> axes = axes_of(shape);
  for (size_t i = 0; i < cuts.size(); ++i)
    indices.push_back(Expr(axes[i]) * Expr(cuts[i].step) + Expr(cuts[i].begin));
  const bool is_whole = shape == value.type.shape &&
                        std::ranges::all_of(cuts, [](const Cut& cut) { return cut.step == 1; });
  if (is_whole) return builder.alias(output, value.name);
  Declaration declaration(builder);
  return declaration.add(compute("out", axes, declaration.read(value).read_at(indices)), output);
}

std::vector<Cut> no_cuts(const Shape& shape) {
  std::vector<Cut> cuts;
  for (const int64_t extent : shape) cuts.push_back({0, 1, extent});
  return cuts;
}

/// Returns the slice with numpy's meaning of begin and end: negative positions count from the end,
/// and positions beyond the ends are clamped. Unlike in numpy, a slice with a negative step that
/// begins before the first element begins with this element.
Result<Cut> slice_of(const Node& node, int64_t extent, int64_t begin, int64_t end, int64_t step) {
  if (step == 0 || step == std::numeric_limits<int64_t>::min())
    return node.invalid(fmt::format("a step of {}", step));
  const auto position = [&](int64_t given, int64_t least) {
    const int64_t from_start = given < 0 ? given + extent : given;
    return std::clamp<int64_t>(from_start, least, step > 0 ? extent : extent - 1);
  };
  const int64_t before = step > 0 ? 0 : -1;
  const int64_t first = position(begin, extent > 0 ? 0 : before), last = position(end, before);
  const int64_t span = step > 0 ? last - first : first - last;
  // A step larger than the tensor selects one element, as does a step of the tensor's size.
  const int64_t stride = std::min(std::abs(step), std::max<int64_t>(extent, 1));
  return Cut{first, step > 0 ? stride : -stride, span > 0 ? ceil_div(span, stride) : 0};
}

/// The extents of the outputs of a Split.
Result<Shape> split_extents(const Node& node, int64_t extent) {
  TW_TRY(Shape extents, integers_of(node, 1, "split", {}));
  const auto count = static_cast<int64_t>(node.outputs.size());
  if (extents.empty()) {
    const int64_t each = ceil_div(extent, count);
    for (int64_t i = 0; i < count; ++i)
      extents.push_back(std::clamp<int64_t>(extent - i * each, 0, each));
  }
  int64_t sum = 0;
  for (const int64_t part : extents)
    if (part < 0 || part > extent - sum)
      return node.invalid("the parts are larger than the tensor");
    else
      sum += part;
  if (sum != extent || extents.size() != node.outputs.size())
    return node.invalid(fmt::format("{} outputs of [{}] do not make up {} elements", count,
                                    fmt::join(extents, ", "), extent));
  return extents;
}

}  // namespace

Status convert_split(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const size_t axis, axis_attribute(node, 0, value.rank()));
  TW_TRY(const Shape extents, split_extents(node, value.type.shape[axis]));
  std::vector<Cut> cuts = no_cuts(value.type.shape);
  cuts[axis].extent = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    cuts[axis].begin += cuts[axis].extent;
    cuts[axis].extent = extents[i];
    if (node.outputs[i].empty()) continue;
    TW_RETURN_IF_ERROR(add_cuts(builder, value, cuts, node.outputs[i]));
  }
  return {};
}

Status convert_slice(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const std::vector<int64_t> begins, integers_of(node, 1, "starts", {}));
  TW_TRY(const std::vector<int64_t> ends, integers_of(node, 2, "ends", {}));
  std::vector<int64_t> given(begins.size()), ones(begins.size(), 1);
  std::iota(given.begin(), given.end(), 0);
  TW_TRY(given, integers_of(node, 3, "axes", given));
  TW_TRY(const std::vector<int64_t> steps, integers_of(node, 4, "steps", ones));
  TW_TRY(const std::vector<size_t> axes, axes_of_list(node, given, value.rank()));
  if (ends.size() != begins.size() || axes.size() != begins.size() || steps.size() != begins.size())
    return node.invalid("starts, ends, axes and steps differ in length");
  std::vector<Cut> cuts = no_cuts(value.type.shape);
  for (size_t i = 0; i < axes.size(); ++i) {
    TW_TRY(cuts[axes[i]], slice_of(node, value.type.shape[axes[i]], begins[i], ends[i], steps[i]));
  }
  return add_cuts(builder, value, cuts, node.outputs[0]);
}

// ---- padding --------------------------------------------------------------------------------

namespace {

enum class PadMode { Constant, Edge, Reflect, Wrap };

struct Padding {
  PadMode mode;
  /// Elements added to each dimension; if negative, elements are cut off.
  std::vector<int64_t> before, after;
};

Result<Padding> padding_of(const Node& node) {
  const auto rank = static_cast<size_t>(node.input(0).rank());
  TW_TRY(const std::string mode, node.text("mode", "constant"));
  TW_TRY(const std::vector<int64_t> pads, integers_of(node, 1, "pads", {}));
  std::vector<int64_t> given(rank);
  std::iota(given.begin(), given.end(), 0);
  if (node.has_input(3)) {
    TW_TRY(given, node.constant_integers(3));
  }
  TW_TRY(const std::vector<size_t> axes, axes_of_list(node, given, node.input(0).rank()));
  if (pads.size() != 2 * axes.size()) return node.invalid("expected two pads for each axis");
  constexpr std::string_view modes[] = {"constant", "edge", "reflect", "wrap"};
  const auto* found = std::ranges::find(modes, mode);
  if (found == std::end(modes)) return node.unsupported(fmt::format("mode='{}'", mode));
  Padding padding = {static_cast<PadMode>(found - modes), Shape(rank), Shape(rank)};
  for (size_t i = 0; i < axes.size(); ++i) {
    padding.before[axes[i]] = pads[i];
    padding.after[axes[i]] = pads[axes.size() + i];
  }
  return padding;
}

/// Returns the position, in [0, extent), of the element that stands at `index` of the padded
/// tensor. For an extent of 5, index -2 is position 3 if the mode wraps, 0 if it repeats the edge,
/// and 2 if it reflects. Requires: the index is at most one extent away.
Expr padded_position(PadMode mode, const Expr& index, int64_t extent, bool before, bool after) {
  const Expr last(extent - 1);
  if (mode == PadMode::Wrap) return index % Expr(extent);
  if (mode == PadMode::Edge) {
    const Expr low = before ? max(index, Expr(0)) : index;
    return after ? min(low, last) : low;
  }
  const Expr low = before ? max(index, -index) : index;
  return after ? min(low, last + last - low) : low;
}

/// Returns the value with which a Pad of mode `constant` fills the padding.
Result<Expr> padding_value(const Node& node, Declaration& declaration) {
  const DType type = node.input(0).type.dtype;
  if (!node.has_input(2)) {
    TW_TRY(const double value, node.number("value", 0));
    return dsl::constant(type, value);
  }
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 2}));
  const Value& value = node.input(2);
  if (extent_of(value.type.shape) != 1) return node.invalid("the value is no single number");
  return broadcast_read(declaration.read(value), value.type.shape, {Expr(0)});
}

Result<Shape> padded_shape(const Node& node, const Padding& padding) {
  Shape shape = node.input(0).type.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t before = padding.before[i], after = padding.after[i], extent = shape[i];
    constexpr int64_t largest = int64_t{1} << 48;
    if (std::abs(before) > largest || std::abs(after) > largest || extent + before + after < 0)
      return node.invalid(fmt::format("pads {} and {} of {} elements", before, after, extent));
    if (padding.mode == PadMode::Reflect && std::max(before, after) >= std::max<int64_t>(extent, 1))
      return node.unsupported("a reflection of more than the tensor");
    if (padding.mode != PadMode::Constant && extent == 0 && before + after > 0)
      return node.invalid("nothing to repeat");
    shape[i] = extent + before + after;
  }
  return shape;
}

}  // namespace

Status convert_pad(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const Padding padding, padding_of(node));
  TW_TRY(const Shape shape, padded_shape(node, padding));
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  const std::vector<Axis> axes = axes_of(shape);
  std::vector<Expr> indices, inside;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool before = padding.before[i] > 0, after = padding.after[i] > 0;
    const int64_t extent = value.type.shape[i];
    Expr index = Expr(axes[i]) - Expr(padding.before[i]);
    if (padding.mode == PadMode::Constant) {
      if (before) inside.push_back(Expr(0) <= index);
      if (after) inside.push_back(index < Expr(extent));
    } else if (before || after) {
      index = padded_position(padding.mode, index, extent, before, after);
    }
    indices.push_back(index);
  }
  Expr element = in.read_at(indices);
  if (!inside.empty()) {
    TW_TRY(const Expr otherwise, padding_value(node, declaration));
    element = select(all_of(inside), element, otherwise);
  }
  return declaration.add(compute("out", axes, element), node.outputs[0]);
}

// ---- repeating ------------------------------------------------------------------------------

Status convert_expand(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const Shape target, node.constant_integers(1));
  for (const int64_t extent : target)
    if (extent < 0) return node.invalid(fmt::format("an extent of {}", extent));
  TW_TRY(const Shape shape, broadcast(node, {value.type.shape, target}));
  if (shape == value.type.shape) return builder.alias(node.outputs[0], value.name);
  Declaration declaration(builder);
  const std::vector<Axis> axes = axes_of(shape);
  const Expr element = broadcast_read(declaration.read(value), value.type.shape, at(axes));
  return declaration.add(compute("out", axes, element), node.outputs[0]);
}

Status convert_tile(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const std::vector<int64_t> repeats, node.constant_integers(1));
  if (repeats.size() != value.type.shape.size()) return node.invalid("expected a repeat an axis");
  Shape shape;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const auto extent = checked_mul(repeats[i], value.type.shape[i]);
    if (repeats[i] < 0 || !extent) return node.invalid(fmt::format("{} repeats", repeats[i]));
    shape.push_back(*extent);
  }
  const std::vector<Axis> axes = axes_of(shape);
  std::vector<Expr> indices;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t extent = value.type.shape[i];
    indices.push_back(extent == 0 ? Expr(axes[i]) : Expr(axes[i]) % Expr(extent));
    if (repeats[i] == 1) indices.back() = axes[i];
  }
  Declaration declaration(builder);
  return declaration.add(compute("out", axes, declaration.read(value).read_at(indices)),
                         node.outputs[0]);
}

// ---- space and depth ------------------------------------------------------------------------

namespace {

Result<int64_t> block_size(const Node& node) {
  if (node.input(0).rank() != 4) return node.invalid("expected four dimensions");
  TW_TRY(const int64_t block, node.integer("blocksize", 0));
  if (block < 1 || block > 1 << 15) return node.invalid(fmt::format("blocksize={}", block));
  return block;
}

}  // namespace

Status convert_depth_to_space(const Node& node, Builder& builder) {
  TW_TRY(const int64_t block, block_size(node));
  TW_TRY(const std::string mode, node.text("mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") return node.unsupported(fmt::format("mode='{}'", mode));
  const Shape& from = node.input(0).type.shape;
  if (from[1] % (block * block) != 0) return node.invalid("blocks do not divide the channels");
  const int64_t channels = from[1] / (block * block);
  const std::vector<Axis> o = axes_of({from[0], channels, from[2] * block, from[3] * block});
  const Expr cell = Expr(o[2]) % Expr(block) * Expr(block) + Expr(o[3]) % Expr(block);
  const Expr channel =
      mode == "DCR" ? cell * Expr(channels) + Expr(o[1]) : Expr(o[1]) * Expr(block * block) + cell;
  Declaration declaration(builder);
  const Tensor in = declaration.read(node.input(0));
  const Expr element = in(o[0], channel, Expr(o[2]) / Expr(block), Expr(o[3]) / Expr(block));
  return declaration.add(compute("out", o, element), node.outputs[0]);
}

Status convert_space_to_depth(const Node& node, Builder& builder) {
  TW_TRY(const int64_t block, block_size(node));
  TW_TRY(const std::string mode, node.text("mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") return node.unsupported(fmt::format("mode='{}'", mode));
  const Shape& from = node.input(0).type.shape;
  if (from[2] % block != 0 || from[3] % block != 0)
    return node.invalid("blocks do not divide the image");
  const int64_t cells = block * block;
  const std::vector<Axis> o = axes_of({from[0], from[1] * cells, from[2] / block, from[3] / block});
  const bool is_depth_first = mode == "DCR" && from[1] > 0;
  const Expr cell = is_depth_first ? Expr(o[1]) / Expr(from[1]) : Expr(o[1]) % Expr(cells);
  const Expr channel = is_depth_first ? Expr(o[1]) % Expr(from[1]) : Expr(o[1]) / Expr(cells);
  Declaration declaration(builder);
  const Tensor in = declaration.read(node.input(0));
  const Expr element = in(o[0], channel, Expr(o[2]) * Expr(block) + cell / Expr(block),
                          Expr(o[3]) * Expr(block) + cell % Expr(block));
  return declaration.add(compute("out", o, element), node.outputs[0]);
}

// ---- triangles and diagonals ----------------------------------------------------------------

Status convert_trilu(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  if (value.rank() < 2) return node.invalid("expected a matrix");
  TW_TRY(const int64_t upper, node.integer("upper", 1));
  std::vector<int64_t> diagonal = {0};
  if (node.has_input(1)) {
    TW_TRY(diagonal, node.constant_integers(1));
    if (diagonal.size() != 1) return node.invalid("expected one diagonal");
  }
  const std::vector<Axis> axes = axes_of(value.type.shape);
  const Expr row = axes[axes.size() - 2], column = axes[axes.size() - 1];
  constexpr int64_t farthest = int64_t{1} << 48;
  const Expr limit = row + Expr(std::clamp(diagonal[0], -farthest, farthest));
  Declaration declaration(builder);
  const Expr element = declaration.read(value).read_at(at(axes));
  const Expr kept = upper ? limit <= column : column <= limit;
  return declaration.add(compute("out", axes, select(kept, element, number(element, 0))),
                         node.outputs[0]);
}

Status convert_eye_like(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  if (value.rank() != 2) return node.invalid("expected a matrix");
  TW_TRY(const int64_t diagonal, node.integer("k", 0));
  DType type = value.type.dtype;
  if (node.has("dtype")) {
    TW_TRY(const int64_t given, node.integer("dtype", 0));
    TW_TRY(type, element_type(given));
  }
  const std::vector<Axis> axes = axes_of(value.type.shape);
  constexpr int64_t farthest = int64_t{1} << 48;
  const Expr limit = Expr(axes[0]) + Expr(std::clamp(diagonal, -farthest, farthest));
  const Expr element =
      select(eq(limit, Expr(axes[1])), dsl::constant(type, 1), dsl::constant(type, 0));
  return Declaration(builder).add(compute("out", axes, element), node.outputs[0]);
}

Status convert_center_crop_pad(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const std::vector<int64_t> target, node.constant_integers(1));
  std::vector<int64_t> all(static_cast<size_t>(value.rank()));
  std::iota(all.begin(), all.end(), 0);
  TW_TRY(const std::vector<int64_t> given, node.integers("axes", all));
  TW_TRY(const std::vector<size_t> axes, axes_of_list(node, given, value.rank()));
  if (axes.size() != target.size()) return node.invalid("expected an extent for each axis");
  Shape shape = value.type.shape;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (target[i] < 0) return node.invalid(fmt::format("an extent of {}", target[i]));
    shape[axes[i]] = target[i];
  }
  const std::vector<Axis> o = axes_of(shape);
  std::vector<Expr> indices, inside;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t extent = value.type.shape[i];
    // Half of the difference of the extents, rounded down, is added or cut off before the first
    // element.
    const int64_t before =
        shape[i] >= extent ? -((shape[i] - extent) / 2) : (extent - shape[i]) / 2;
    indices.push_back(Expr(o[i]) + Expr(before));
    if (before < 0) inside.push_back(Expr(0) <= indices.back());
    if (shape[i] > extent) inside.push_back(indices.back() < Expr(extent));
  }
  Declaration declaration(builder);
  const Expr element = declaration.read(value).read_at(indices);
  return declaration.add(compute("out", o, select(all_of(inside), element, number(element, 0))),
                         node.outputs[0]);
}

// ---- columns --------------------------------------------------------------------------------

// Column l of the input holds the block that begins at the l-th position of a sliding window. An
// element of the image is the sum, over all windows that contain the element, of its value in the
// column of the window.
Status convert_col2im(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const Shape image, node.constant_integers(1));
  TW_TRY(const Shape block, node.constant_integers(2));
  if (value.rank() != 3 || image.size() != block.size())
    return node.invalid("no columns of blocks");
  TW_TRY(const std::vector<Window> windows, windows_of(node, image, block));
  const int64_t taps_of_block = extent_of(block), columns = extent_of(outputs_of(windows));
  const Shape& from = value.type.shape;
  if (taps_of_block == 0 || from[1] % taps_of_block != 0 || from[2] != columns)
    return node.invalid("the columns do not fit the image and the blocks");
  Shape shape = {from[0], from[1] / taps_of_block};
  shape.insert(shape.end(), image.begin(), image.end());
  const std::vector<Axis> o = axes_of(shape), taps = axes_of(block, "k");
  Expr row = o[1], column(0);
  std::vector<Expr> inside;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& w = windows[i];
    const Expr place = Expr(o[i + 2]) + Expr(w.before) - Expr(taps[i]) * Expr(w.dilation);
    const Expr position = place / Expr(w.stride);
    if (w.stride > 1) inside.push_back(eq(place % Expr(w.stride), Expr(0)));
    inside.push_back(Expr(0) <= position && position < Expr(w.output));
    row = row * Expr(w.kernel) + Expr(taps[i]);
    column = column * Expr(w.output) + position;
  }
  Declaration declaration(builder);
  const Expr element = wide(declaration.read(value)(o[0], row, column));
  const Expr counted = select(all_of(inside), element, number(element, 0));
  return declaration.add(reduced(o, sum(taps, counted), value.type.dtype), node.outputs[0]);
}

}  // namespace tw::graph::onnx
