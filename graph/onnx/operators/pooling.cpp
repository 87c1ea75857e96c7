// SPDX-License-Identifier: Apache-2.0
// Poolings over any number of dimensions. Unlike in ONNX, max pooling ignores a NaN instead of
// returning it.
#include <fmt/format.h>

#include <algorithm>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/window.h"

namespace tw::graph::onnx {
namespace {

/// A pooling of [n, c, ...]: its windows and the axes of its loops.
struct Pooling {
  std::vector<Window> windows;
  std::vector<Axis> out, taps;

  std::vector<Axis> positions() const { return {out.begin() + 2, out.end()}; }
  std::vector<Expr> channel() const { return {out[0], out[1]}; }
};

Result<Pooling> pooling_of(const Node& node) {
  const Shape& shape = node.input(0).type.shape;
  if (shape.size() < 3) return node.invalid("expected a batch, channels and an image");
  const Shape spatial(shape.begin() + 2, shape.end());
  TW_TRY(const Shape kernel, node.integers("kernel_shape", {}));
  Pooling p;
  TW_TRY(p.windows, windows_of(node, spatial, kernel));
  Shape result = {shape[0], shape[1]};
  for (const Window& window : p.windows) result.push_back(window.output);
  p.out = axes_of(result);
  p.taps = axes_of(kernel, "t");
  return p;
}

/// True if the named operator max_pool2d declares the same function as the node: there are two
/// spatial dimensions, no dilation and no output of indices, and the elements are not bools.
bool is_max_pool2d(const Node& node, const Pooling& p) {
  const bool has_indices = node.outputs.size() > 1 && !node.outputs[1].empty();
  const auto is_dense = [](const Window& window) { return window.dilation == 1; };
  const Shape& shape = node.input(0).type.shape;
  return !has_indices && p.windows.size() == 2 && std::ranges::all_of(p.windows, is_dense) &&
         shape[0] > 0 && node.input(0).type.dtype != Bool;
}

Status add_max_pool2d(const Node& node, Builder& builder, const Pooling& p) {
  const Value& in = node.input(0);
  const Window &y = p.windows[0], &x = p.windows[1];
  const dsl::Attributes attributes = {
      {"n", in.type.shape[0]}, {"c", in.type.shape[1]}, {"h", y.input},
      {"w", x.input},          {"kernel_h", y.kernel},  {"kernel_w", x.kernel},
      {"kernel", y.kernel},    {"stride_h", y.stride},  {"stride_w", x.stride},
      {"pad_top", y.before},   {"pad_left", x.before},  {"pad_bottom", y.after},
      {"pad_right", x.after}};
  return add_named(builder, "max_pool2d", attributes, in.type.dtype, {in}, node.outputs[0]);
}

/// Returns the position, in the whole input, of the element that a window reads at a tap. It is
/// counted along rows, or along columns if `column_major` (storage_order = 1).
Expr flat_position(const Shape& shape, const Pooling& p, bool column_major) {
  const std::vector<Axis> positions = p.positions();
  Expr image = Expr(p.out[0]) * Expr(shape[1]) + Expr(p.out[1]);
  const size_t rank = p.windows.size();
  int64_t size = 1;
  Expr inside(0);
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = column_major ? i : rank - 1 - i;
    inside = inside + p.windows[d].position(positions[d], p.taps[d]) * Expr(size);
    size *= p.windows[d].input;
  }
  return image * Expr(size) + inside;
}

}  // namespace

Status convert_max_pool(const Node& node, Builder& builder) {
  TW_TRY(const Pooling p, pooling_of(node));
  TW_TRY(const int64_t column_major, node.integer("storage_order", 0));
  if (is_max_pool2d(node, p)) return add_max_pool2d(node, builder, p);
  const Value& value = node.input(0);
  if (value.type.dtype == Bool) return node.unsupported("the data type bool");
  Declaration declaration(builder);
  const Tensor in = declaration.read(value);
  const Expr least = dsl::identity(dsl::Combine::Max, value.type.dtype);
  const Expr element = windowed_read(in, p.channel(), p.windows, p.positions(), p.taps, least);
  const Tensor peak = compute("out", p.out, max_over(p.taps, element));
  if (node.outputs.size() < 2 || node.outputs[1].empty())
    return declaration.add(peak, node.outputs[0]);
  const Expr is_peak =
      is_inside(p.windows, p.positions(), p.taps) && eq(element, peak.read_at(at(p.out)));
  const Expr place = flat_position(value.type.shape, p, column_major != 0);
  const Tensor first =
      compute("indices", p.out,
              min_over(p.taps, select(is_peak, place, dsl::identity(dsl::Combine::Min, Int64))));
  return declaration.add({peak, first}, node.outputs);
}

namespace {

/// True if the only window is the whole image, without padding.
bool is_global(const Pooling& p) {
  return std::ranges::all_of(p.windows, [](const Window& window) {
    return window.kernel == window.input && window.output == 1 && window.before == 0 &&
           window.after == 0;
  });
}

}  // namespace

Status convert_average_pool(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const Pooling p, pooling_of(node));
  if (is_global(p)) return convert_global_average_pool(node, builder);
  TW_TRY(const int64_t counts_padding, node.integer("count_include_pad", 0));
  const std::vector<Axis> positions = p.positions();
  Expr count(1);
  for (size_t i = 0; i < p.windows.size(); ++i) {
    const Window& window = p.windows[i];
    // Elements that ceil_mode adds behind the padding never count.
    TW_TRY(const std::vector<int64_t> pads,
           per_dimension(node, "pads", 2 * p.windows.size(), 0, 0));
    TW_TRY(const std::string auto_pad, node.text("auto_pad", "NOTSET"));
    const int64_t padding = auto_pad == "NOTSET" ? pads[p.windows.size() + i] : window.after;
    const int64_t low = counts_padding ? -window.before : 0;
    const int64_t high = window.input + (counts_padding ? padding : 0);
    const bool is_full =
        low <= -window.before &&
        (window.output - 1) * window.stride + window.reach() - window.before <= high;
    count = count * (is_full ? Expr(window.kernel) : window.count_taps(positions[i], low, high));
  }
  Declaration declaration(builder);
  const Expr zero = dsl::constant(value.type.dtype, 0);
  const Expr element =
      windowed_read(declaration.read(value), p.channel(), p.windows, positions, p.taps, zero);
  const Tensor total = compute("total", p.out, sum(p.taps, wide(element)));
  const Expr mean = total.read_at(at(p.out)) / cast(wide_type(value.type.dtype), count);
  return declaration.add(compute("out", p.out, cast(value.type.dtype, mean)), node.outputs[0]);
}

// ---- norms ----------------------------------------------------------------------------------

namespace {

/// Adds (sum of |x|^p)^(1/p) over windows or whole images, where p is `exponent`.
Status add_norm(const Node& node, Declaration& declaration, const std::vector<Axis>& out,
                const std::vector<Axis>& over, const Expr& element, int64_t exponent) {
  const Tensor total =
      compute("total", out, sum(over, power(abs(wide(element)), static_cast<double>(exponent))));
  const Expr root = power(total.read_at(at(out)), 1.0 / static_cast<double>(exponent));
  return declaration.add(compute("out", out, cast(element.type(), root)), node.outputs[0]);
}

/// The axes of a result with one element for each image (`out`), and of the image that is read
/// (`over`).
struct Global {
  std::vector<Axis> out, over;

  std::vector<Expr> element() const {
    std::vector<Expr> indices = {out[0], out[1]};
    indices.insert(indices.end(), over.begin(), over.end());
    return indices;
  }
};

Result<Global> global_of(const Node& node) {
  const Shape& shape = node.input(0).type.shape;
  if (shape.size() < 3) return node.invalid("expected a batch, channels and an image");
  Shape result(shape.size(), 1);
  result[0] = shape[0];
  result[1] = shape[1];
  return Global{axes_of(result), axes_of({shape.begin() + 2, shape.end()}, "t")};
}

Result<int64_t> exponent_of(const Node& node) {
  TW_TRY(const int64_t exponent, node.integer("p", 2));
  if (exponent < 1 || exponent > 16) return node.unsupported(fmt::format("p={}", exponent));
  return exponent;
}

}  // namespace

Status convert_lp_pool(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const Pooling p, pooling_of(node));
  TW_TRY(const int64_t exponent, exponent_of(node));
  Declaration declaration(builder);
  const Expr element =
      windowed_read(declaration.read(node.input(0)), p.channel(), p.windows, p.positions(), p.taps,
                    dsl::constant(node.input(0).type.dtype, 0));
  return add_norm(node, declaration, p.out, p.taps, element, exponent);
}

// ---- whole images ---------------------------------------------------------------------------

Status convert_global_average_pool(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_TRY(const Global g, global_of(node));
  const Shape& shape = value.type.shape;
  if (shape.size() == 4 && shape[2] > 0 && shape[3] > 0) {
    const std::string mean = builder.fresh_name(node.outputs[0]);
    TW_RETURN_IF_ERROR(
        add_named(builder, "global_avg_pool",
                  {{"n", shape[0]}, {"c", shape[1]}, {"h", shape[2]}, {"w", shape[3]}},
                  value.type.dtype, {value}, mean));
    return add_reshape(builder, builder.value(mean), {shape[0], shape[1], 1, 1}, node.outputs[0]);
  }
  const int64_t size = extent_of(shape, 2, shape.size());
  if (size == 0) return node.invalid("the mean of nothing");
  Declaration declaration(builder);
  const Expr element = wide(declaration.read(value).read_at(g.element()));
  const Tensor total = compute("total", g.out, sum(g.over, element));
  const Expr mean = total.read_at(at(g.out)) / number(element, static_cast<double>(size));
  return declaration.add(compute("out", g.out, cast(value.type.dtype, mean)), node.outputs[0]);
}

Status convert_global_max_pool(const Node& node, Builder& builder) {
  TW_TRY(const Global g, global_of(node));
  if (node.input(0).type.dtype == Bool) return node.unsupported("the data type bool");
  Declaration declaration(builder);
  const Expr element = declaration.read(node.input(0)).read_at(g.element());
  return declaration.add(compute("out", g.out, max_over(g.over, element)), node.outputs[0]);
}

Status convert_global_lp_pool(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const Global g, global_of(node));
  TW_TRY(const int64_t exponent, exponent_of(node));
  Declaration declaration(builder);
  const Expr element = declaration.read(node.input(0)).read_at(g.element());
  return add_norm(node, declaration, g.out, g.over, element, exponent);
}

}  // namespace tw::graph::onnx
