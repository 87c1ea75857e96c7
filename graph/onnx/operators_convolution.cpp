// SPDX-License-Identifier: Apache-2.0
// Convolutions. Two-dimensional ones are conv2d, grouped ones on reshaped arrays, which moves
// nothing; those of other ranks and transposed ones are expressions.
#include <fmt/format.h>

#include <algorithm>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/quantization.h"
#include "graph/onnx/window.h"

namespace tw::graph::onnx {
namespace {

/// What a node convolves: in [n, groups * c, ...] with weights [groups * k, c, taps...].
struct Convolution {
  Value in, weight;
  std::optional<Value> bias;
  int64_t groups = 1, c = 0, k = 0;  ///< channels a group, read and written
  std::vector<Window> windows;

  int64_t n() const { return in.type.shape[0]; }
  Shape spatial() const { return {in.type.shape.begin() + 2, in.type.shape.end()}; }
  Shape taps() const { return {weight.type.shape.begin() + 2, weight.type.shape.end()}; }
  Shape result_shape() const {
    Shape shape = {n(), groups * k};
    for (const Window& window : windows) shape.push_back(window.output);
    return shape;
  }
};

Result<int64_t> groups_of(const Node& node, int64_t channels) {
  TW_TRY(const int64_t groups, node.integer("group", 1));
  if (groups < 1 || channels % groups != 0)
    return node.invalid(fmt::format("{} groups of {} channels", groups, channels));
  return groups;
}

Status check_kernel_shape(const Node& node, const Shape& taps) {
  TW_TRY(const Shape given, node.integers("kernel_shape", taps));
  if (given == taps) return {};
  return node.invalid("kernel_shape is not that of the weights");
}

Result<Convolution> convolution_of(const Node& node, const Value& in, const Value& weight) {
  if (in.rank() < 3 || weight.rank() != in.rank())
    return node.invalid("expected an input and weights of one rank, at least 3");
  Convolution p = {in, weight, {}, 1, weight.type.shape[1], 0, {}};
  TW_TRY(p.groups, groups_of(node, in.type.shape[1]));
  if (p.c * p.groups != in.type.shape[1] || weight.type.shape[0] % p.groups != 0 || p.c == 0)
    return node.invalid("channels of the weights do not fit the input");
  p.k = weight.type.shape[0] / p.groups;
  TW_RETURN_IF_ERROR(check_kernel_shape(node, p.taps()));
  TW_TRY(p.windows, windows_of(node, p.spatial(), p.taps()));
  return p;
}

Status read_bias(const Node& node, size_t index, Convolution& p) {
  if (!node.has_input(index)) return {};
  p.bias = node.input(index);
  if (p.bias->type.shape == Shape{p.groups * p.k}) return {};
  return node.invalid("expected a bias a channel");
}

dsl::Attributes conv2d_attributes(const Convolution& p) {
  const Window &y = p.windows[0], &x = p.windows[1];
  return {{"n", p.n()},           {"c", p.groups * p.c},      {"h", y.input},
          {"w", x.input},         {"k", p.groups * p.k},      {"r", y.kernel},
          {"s", x.kernel},        {"stride_h", y.stride},     {"stride_w", x.stride},
          {"pad_top", y.before},  {"pad_left", x.before},     {"pad_bottom", y.after},
          {"pad_right", x.after}, {"dilation_h", y.dilation}, {"dilation_w", x.dilation},
          {"groups", p.groups},   {"bias", p.bias ? 1 : 0}};
}

/// conv2d with its tensors in the shapes that it declares (docs/expressions.md).
Status add_conv2d(Builder& builder, const Convolution& p, const std::string& output) {
  const bool is_depthwise = p.groups > 1 && p.c == 1 && p.k == 1;
  const bool is_grouped = p.groups > 1 && !is_depthwise;
  Shape in = p.in.type.shape, weight = p.weight.type.shape, bias = {p.groups * p.k};
  if (is_depthwise) weight.erase(weight.begin() + 1);
  if (is_grouped) {
    in = {in[0], p.groups, p.c, in[2], in[3]};
    weight = {p.groups, p.k, p.c, weight[2], weight[3]};
    bias = {p.groups, p.k};
  }
  std::vector<Value> inputs;
  TW_TRY(const Value in_value, reshaped(builder, p.in, in));
  TW_TRY(const Value weight_value, reshaped(builder, p.weight, weight));
  inputs = {in_value, weight_value};
  if (p.bias) {
    TW_TRY(const Value bias_value, reshaped(builder, *p.bias, bias));
    inputs.push_back(bias_value);
  }
  const std::string result = is_grouped ? builder.fresh_name(output) : output;
  TW_RETURN_IF_ERROR(
      add_named(builder, "conv2d", conv2d_attributes(p), p.in.type.dtype, inputs, result));
  if (!is_grouped) return {};
  return add_reshape(builder, builder.value(result), p.result_shape(), output);
}

/// The axes of a convolution over any number of dimensions, and the indices of its tensors.
struct Loops {
  std::vector<Axis> out;   ///< n, channel, positions
  std::vector<Axis> taps;  ///< of the kernel
  Axis c;                  ///< channel of the group that is read

  explicit Loops(const Convolution& p)
      : out(axes_of(p.result_shape())), taps(axes_of(p.taps(), "t")), c("c", p.c) {}
  std::vector<Axis> positions() const { return {out.begin() + 2, out.end()}; }
  std::vector<Axis> reduction() const {
    std::vector<Axis> axes = {c};
    axes.insert(axes.end(), taps.begin(), taps.end());
    return axes;
  }
  Expr channel_read(const Convolution& p) const {
    return Expr(out[1]) / Expr(std::max<int64_t>(p.k, 1)) * Expr(p.c) + Expr(c);
  }
  std::vector<Expr> weight_indices() const {
    std::vector<Expr> indices = {out[1], c};
    indices.insert(indices.end(), taps.begin(), taps.end());
    return indices;
  }
};

Status add_convolution(Builder& builder, const Convolution& p, const std::string& output) {
  const Loops loops(p);
  Declaration declaration(builder);
  const Tensor in = declaration.read(p.in), weight = declaration.read(p.weight);
  const Expr element =
      windowed_read(in, {loops.out[0], loops.channel_read(p)}, p.windows, loops.positions(),
                    loops.taps, dsl::constant(p.in.type.dtype, 0));
  const Expr product = wide(element) * wide(weight.read_at(loops.weight_indices()));
  const DType type = p.in.type.dtype;
  const dsl::Reduction total = sum(loops.reduction(), product);
  if (!p.bias) return declaration.add(reduced(loops.out, total, type), output);
  const Tensor conv = compute("conv", loops.out, total);
  const Expr shift = wide(declaration.read(*p.bias)(loops.out[1]));
  return declaration.add(compute("out", loops.out, cast(type, conv.read_at(at(loops.out)) + shift)),
                         output);
}

}  // namespace

Status convert_conv(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(Convolution p, convolution_of(node, node.input(0), node.input(1)));
  TW_RETURN_IF_ERROR(read_bias(node, 2, p));
  if (p.windows.size() == 2) return add_conv2d(builder, p, node.outputs[0]);
  return add_convolution(builder, p, node.outputs[0]);
}

// ---- integers -------------------------------------------------------------------------------

namespace {

/// A number a tensor, or a number for each slice along an axis.
Result<Expr> read_zero_point(const Node& node, Declaration& declaration, size_t index,
                             const Expr& channel) {
  if (!node.has_input(index)) return dsl::constant_int(Int32, 0);
  const Value& value = node.input(index);
  if (value.rank() > 1) return node.invalid(fmt::format("input {} has two dimensions", index));
  const Expr number = broadcast_read(declaration.read(value), value.type.shape, {channel});
  if (is_float(number.type())) return node.invalid(fmt::format("input {} is a float", index));
  return cast(Int32, number);
}

Status check_bytes(const Node& node, const std::vector<size_t>& inputs) {
  for (const size_t i : inputs) {
    const DType type = node.input(i).type.dtype;
    if (type != Int8 && type != UInt8)
      return node.unsupported(fmt::format("the data type {}", to_string(type)));
  }
  return {};
}

/// The stage "conv": the sum of (x - x_zero) (w - w_zero) in i32, where padding is 0.
Result<Tensor> integer_convolution(const Node& node, Declaration& declaration, const Convolution& p,
                                   const Loops& loops, size_t x_zero, size_t w_zero) {
  TW_TRY(const Expr x0, read_zero_point(node, declaration, x_zero, Expr(0)));
  TW_TRY(const Expr w0, read_zero_point(node, declaration, w_zero, loops.out[1]));
  const Tensor in = declaration.read(p.in), weight = declaration.read(p.weight);
  std::vector<Expr> indices = {loops.out[0], loops.channel_read(p)};
  const std::vector<Axis> positions = loops.positions();
  for (size_t i = 0; i < p.windows.size(); ++i)
    indices.push_back(p.windows[i].position(positions[i], loops.taps[i]));
  const Expr x = select(is_inside(p.windows, positions, loops.taps),
                        cast(Int32, in.read_at(indices)) - x0, dsl::constant_int(Int32, 0));
  const Expr w = cast(Int32, weight.read_at(loops.weight_indices())) - w0;
  return compute("conv", loops.out, sum(loops.reduction(), x * w));
}

}  // namespace

Status convert_conv_integer(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 1}));
  TW_TRY(const Convolution p, convolution_of(node, node.input(0), node.input(1)));
  const Loops loops(p);
  Declaration declaration(builder);
  TW_TRY(const Tensor conv, integer_convolution(node, declaration, p, loops, 2, 3));
  return declaration.add(conv, node.outputs[0]);
}

Status convert_qlinear_conv(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 3}));
  TW_TRY(Convolution p, convolution_of(node, node.input(0), node.input(3)));
  TW_RETURN_IF_ERROR(read_bias(node, 8, p));
  const Loops loops(p);
  Declaration declaration(builder);
  TW_TRY(const Tensor conv, integer_convolution(node, declaration, p, loops, 2, 5));
  Expr total = conv.read_at(at(loops.out));
  if (p.bias) {
    if (p.bias->type.dtype != Int32) return node.invalid("the bias is not i32");
    total = total + declaration.read(*p.bias)(loops.out[1]);
  }
  TW_TRY(const Expr result,
         requantized(node, declaration, loops.out, total, {1, 4, 6, 7}, Expr(0), loops.out[1]));
  return declaration.add(compute("out", loops.out, result), node.outputs[0]);
}

// ---- transposed -----------------------------------------------------------------------------

namespace {

/// One dimension of a transposed convolution: input position i adds to the output positions
/// i * stride + tap * dilation - before.
struct Spread {
  int64_t input, kernel, stride, dilation, before, output;
};

Result<std::vector<Spread>> spreads_of(const Node& node, const Shape& input, const Shape& kernel) {
  const size_t rank = input.size();
  TW_TRY(const std::vector<int64_t> strides, per_dimension(node, "strides", rank, 1, 1));
  TW_TRY(const std::vector<int64_t> dilations, per_dimension(node, "dilations", rank, 1, 1));
  TW_TRY(const std::vector<int64_t> pads, per_dimension(node, "pads", 2 * rank, 0, 0));
  TW_TRY(const std::vector<int64_t> added, per_dimension(node, "output_padding", rank, 0, 0));
  TW_TRY(const std::vector<int64_t> wanted, per_dimension(node, "output_shape", rank, 0, 0));
  TW_TRY(const std::string auto_pad, node.text("auto_pad", "NOTSET"));
  std::vector<Spread> spreads;
  for (size_t i = 0; i < rank; ++i) {
    if (input[i] < 1 || input[i] > largest_window || kernel[i] < 1 || kernel[i] > largest_window)
      return node.invalid("an extent of 0, or too large a one");
    Spread s = {input[i], kernel[i], strides[i], dilations[i], pads[i], 0};
    const int64_t full = (s.input - 1) * s.stride + (s.kernel - 1) * s.dilation + 1 + added[i];
    const bool is_same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (node.has("output_shape") || is_same) {
      s.output = node.has("output_shape") ? wanted[i] : s.input * s.stride;
      const int64_t total = std::max<int64_t>(full - s.output, 0);
      s.before = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else {
      s.output = full - pads[i] - pads[rank + i];
    }
    if (s.output < 0) return node.invalid("paddings are larger than the output");
    spreads.push_back(s);
  }
  return spreads;
}

/// What a transposed convolution multiplies at the axes of its result and its reduction.
struct SpreadReads {
  std::vector<Expr> input, weight;
  Expr is_hit;  ///< whether an input position adds to the output position by this tap
};

SpreadReads reads_of(const std::vector<Spread>& spreads, const std::vector<Axis>& out,
                     const std::vector<Axis>& taps, const Expr& channel, const Expr& filter) {
  SpreadReads reads = {{out[0], channel}, {channel, filter}, {}};
  std::vector<Expr> conditions;
  for (size_t i = 0; i < spreads.size(); ++i) {
    const Spread& s = spreads[i];
    // The input position times the stride: a tap counts where that is a multiple of it.
    const Expr scaled = Expr(out[2 + i]) + Expr(s.before) - Expr(taps[i]) * Expr(s.dilation);
    const Expr position = scaled / Expr(s.stride);
    if (s.stride > 1) conditions.push_back(eq(scaled % Expr(s.stride), Expr(0)));
    conditions.push_back(Expr(0) <= position);
    conditions.push_back(position < Expr(s.input));
    reads.input.push_back(position);
    reads.weight.emplace_back(taps[i]);
  }
  reads.is_hit = all_of(conditions);
  return reads;
}

}  // namespace

Status convert_conv_transpose(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  const Value &in = node.input(0), &weight = node.input(1);
  const DType type = in.type.dtype;
  TW_RETURN_IF_ERROR(check_float(node, type));
  if (in.rank() < 3 || weight.rank() != in.rank() || weight.type.shape[0] != in.type.shape[1])
    return node.invalid("the weights do not fit the input");
  TW_TRY(const int64_t groups, groups_of(node, in.type.shape[1]));
  const int64_t c = in.type.shape[1] / groups, k = weight.type.shape[1];
  const Shape kernel(weight.type.shape.begin() + 2, weight.type.shape.end());
  TW_RETURN_IF_ERROR(check_kernel_shape(node, kernel));
  TW_TRY(const std::vector<Spread> spreads,
         spreads_of(node, {in.type.shape.begin() + 2, in.type.shape.end()}, kernel));
  if (node.has_input(2) && node.input(2).type.shape != Shape{groups * k})
    return node.invalid("expected a bias a channel");
  Shape shape = {in.type.shape[0], groups * k};
  for (const Spread& spread : spreads) shape.push_back(spread.output);

  const std::vector<Axis> o = axes_of(shape), taps = axes_of(kernel, "t");
  const Axis channel("c", c);
  const Expr per_group(std::max<int64_t>(k, 1));
  const SpreadReads reads = reads_of(
      spreads, o, taps, Expr(o[1]) / per_group * Expr(c) + Expr(channel), Expr(o[1]) % per_group);
  Declaration declaration(builder);
  const Expr x = wide(declaration.read(in).read_at(reads.input));
  const Expr w = wide(declaration.read(weight).read_at(reads.weight));
  std::vector<Axis> over = {channel};
  over.insert(over.end(), taps.begin(), taps.end());
  const dsl::Reduction total = sum(over, select(reads.is_hit, x, number(x, 0)) * w);
  if (!node.has_input(2)) return declaration.add(reduced(o, total, type), node.outputs[0]);
  const Tensor conv = compute("conv", o, total);
  const Expr shift = wide(declaration.read(node.input(2))(o[1]));
  return declaration.add(compute("out", o, cast(type, conv.read_at(at(o)) + shift)),
                         node.outputs[0]);
}

// ---- along time -----------------------------------------------------------------------------

namespace {

/// An element of the state of the past, or 0 where there is none, followed by the input.
Expr with_past(const Node& node, Declaration& declaration, const Expr& b, const Expr& c,
               const Expr& time, int64_t past) {
  const Tensor in = declaration.read(node.input(0));
  const Expr now = wide(in(b, c, time - Expr(past)));
  const Expr before =
      node.has_input(3) ? wide(declaration.read(node.input(3))(b, c, time)) : number(now, 0);
  return past == 0 ? now : select(time < Expr(past), before, now);
}

Result<bool> has_silu(const Node& node) {
  TW_TRY(const std::string activation, node.text("activation", "none"));
  constexpr std::string_view known[] = {"none", "silu", "swish"};
  const auto* found = std::ranges::find(known, activation);
  if (found == std::end(known)) return node.unsupported(fmt::format("activation='{}'", activation));
  return found != std::begin(known);
}

}  // namespace

Status convert_causal_conv(const Node& node, Builder& builder) {
  const Value &in = node.input(0), &weight = node.input(1);
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2, 3}));
  TW_RETURN_IF_ERROR(check_float(node, in.type.dtype));
  if (in.rank() != 3 || weight.rank() != 3 || weight.type.shape[2] < 1 ||
      weight.type.shape[0] != in.type.shape[1] || weight.type.shape[1] != 1)
    return node.invalid("expected an input [n, c, time] and weights [c, 1, taps]");
  const int64_t n = in.type.shape[0], channels = in.type.shape[1], past = weight.type.shape[2] - 1;
  if (node.has_input(3) && node.input(3).type.shape != Shape{n, channels, past})
    return node.invalid("the past does not fit the weights");
  TW_TRY(const bool is_activated, has_silu(node));
  const Axis b("b", n), c("c", channels), t("t", in.type.shape[2]), tap("r", past + 1),
      s("s", past);
  Declaration declaration(builder);
  const Expr x = with_past(node, declaration, b, c, Expr(t) + Expr(tap), past);
  const Expr w = wide(declaration.read(weight)(c, Expr(0), tap));
  const Tensor conv = compute("conv", {b, c, t}, sum(tap, x * w));
  Expr result = conv(b, c, t);
  if (node.has_input(2)) {
    if (node.input(2).type.shape != Shape{channels})
      return node.invalid("expected a bias a channel");
    result = result + wide(declaration.read(node.input(2))(c));
  }
  if (is_activated) result = result * sigmoid(result);
  const Expr last = with_past(node, declaration, b, c, Expr(s) + Expr(t.extent), past);
  const DType type = in.type.dtype;
  return declaration.add({compute("out", {b, c, t}, cast(type, result)),
                          compute("present", {b, c, s}, cast(type, last))},
                         node.outputs);
}

}  // namespace tw::graph::onnx
