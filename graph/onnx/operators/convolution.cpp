// SPDX-License-Identifier: Apache-2.0
// Convolutions. Convolutions over images become conv2d, and so do those over signals, which are
// images of one row. A convolution whose window is the whole input becomes a product of matrices.
// Convolutions of other ranks become expressions, and so do transposed convolutions, which are
// split into phases (see Spread). The channels of a grouped convolution become two dimensions by a
// reshape, which moves nothing.
#include <fmt/format.h>

#include <algorithm>

#include "base/integer.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/quantization.h"
#include "graph/onnx/window.h"

namespace tw::graph::onnx {
namespace {

/// Operands and parameters of a convolution: the input [n, groups * c, ...], the weights
/// [groups * k, c, taps...], the bias, and the windows.
struct Convolution {
  Value in, weight;
  std::optional<Value> bias;
  int64_t groups = 1, c = 0, k = 0;  ///< channels that a group reads and writes
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
  if (p.c * p.groups != in.type.shape[1] || p.c == 0)
    return node.invalid("channels of the weights do not fit the input");
  if (weight.type.shape[0] % p.groups != 0)
    return node.invalid(fmt::format("{} output channels cannot be divided into {} groups",
                                    weight.type.shape[0], p.groups));
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

/// The axes of a convolution over any number of dimensions. The groups and the channels of a group
/// are dimensions of their own: without groups there is no axis `g`; a depthwise convolution has
/// neither `k` nor `c`.
struct Loops {
  Axis n, g, k, c;
  std::vector<Axis> positions, taps;  ///< a position and a tap for each spatial dimension
  bool has_groups, has_channels;

  explicit Loops(const Convolution& p)
      : n("n", p.n()),
        g("g", p.groups),
        k("k", p.k),
        c("c", p.c),
        positions(axes_of(outputs_of(p.windows), "x")),
        taps(axes_of(p.taps(), "t")),
        has_groups(p.groups > 1),
        has_channels(p.groups == 1 || p.c != 1 || p.k != 1) {}

  std::vector<Axis> channels_read() const { return channels(c); }
  std::vector<Axis> channels_written() const { return channels(k); }
  std::vector<Axis> out() const { return joined({{n}, channels(k), positions}); }
  std::vector<Axis> weight() const { return joined({channels(k), reduced_channels(), taps}); }
  std::vector<Axis> reduction() const { return joined({reduced_channels(), taps}); }
  /// The index of the output channel, counted over all groups.
  Expr channel() const {
    if (!has_groups) return k;
    return has_channels ? Expr(g) * Expr(k.extent) + Expr(k) : Expr(g);
  }

 private:
  std::vector<Axis> channels(const Axis& channel) const {
    return joined({has_groups ? Axes{g} : Axes{}, has_channels ? Axes{channel} : Axes{}});
  }
  std::vector<Axis> reduced_channels() const { return has_channels ? Axes{c} : Axes{}; }

  using Axes = std::vector<Axis>;
  static Axes joined(const std::vector<Axes>& lists) {
    Axes all;
    for (const Axes& axes : lists) all.insert(all.end(), axes.begin(), axes.end());
    return all;
  }
};

Shape extents_of(const std::vector<Axis>& axes) {
  Shape shape;
  for (const Axis& axis : axes) shape.push_back(axis.extent);
  return shape;
}

/// The tensors of a convolution in the shapes that its loops index.
struct ConvolvedTensors {
  Value in, weight;
  std::optional<Value> bias;
};

Result<ConvolvedTensors> tensors_of(Builder& builder, const Convolution& p, const Loops& loops) {
  Shape in = {p.n()};
  for (const Shape& more : {extents_of(loops.channels_read()), p.spatial()})
    in.insert(in.end(), more.begin(), more.end());
  ConvolvedTensors tensors;
  TW_TRY(tensors.in, reshaped(builder, p.in, in));
  TW_TRY(tensors.weight, reshaped(builder, p.weight, extents_of(loops.weight())));
  if (!p.bias) return tensors;
  TW_TRY(tensors.bias, reshaped(builder, *p.bias, extents_of(loops.channels_written())));
  return tensors;
}

/// Adds the tensor `output` of shape `wanted`. `add(name)` must add the same elements as a tensor
/// `name` of shape `made`. If the shapes differ, `output` is a reshape of that tensor.
template <typename Add>
Status add_as(Builder& builder, const Shape& made, const Shape& wanted, const std::string& output,
              const Add& add) {
  if (made == wanted) return add(output);
  const std::string result = builder.fresh_name(output);
  TW_RETURN_IF_ERROR(add(result));
  return add_reshape(builder, builder.value(result), wanted, output);
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

/// Adds conv2d on tensors that are reshaped to the shapes that conv2d declares
/// (docs/expressions.md).
Status add_conv2d(Builder& builder, const Convolution& p, const Shape& wanted,
                  const std::string& output) {
  const Loops loops(p);
  TW_TRY(const ConvolvedTensors tensors, tensors_of(builder, p, loops));
  std::vector<Value> inputs = {tensors.in, tensors.weight};
  if (tensors.bias) inputs.push_back(*tensors.bias);
  return add_as(builder, extents_of(loops.out()), wanted, output, [&](const std::string& result) {
    return add_named(builder, "conv2d", conv2d_attributes(p), p.in.type.dtype, inputs, result);
  });
}

/// Returns a convolution of signals as a convolution of images with one row.
Result<Convolution> as_image(Builder& builder, Convolution p) {
  const auto with_row = [](Shape shape) {
    shape.insert(shape.begin() + 2, 1);
    return shape;
  };
  TW_TRY(p.in, reshaped(builder, p.in, with_row(p.in.type.shape)));
  TW_TRY(p.weight, reshaped(builder, p.weight, with_row(p.weight.type.shape)));
  p.windows.insert(p.windows.begin(), {1, 1, 1, 1, 0, 0, 1});
  return p;
}

/// True if the convolution is a product of matrices: it has one group, and its only window is the
/// whole input. Weights must be constant, since weights that are data would be transposed in each
/// call.
bool is_dense(const Convolution& p) {
  return p.groups == 1 && p.weight.constant &&
         std::ranges::all_of(p.windows, [](const Window& window) {
           return window.kernel == window.input && window.reach() == window.input &&
                  window.before == 0 && window.output == 1;
         });
}

Status add_as_dense(Builder& builder, const Convolution& p, const std::string& output) {
  const int64_t depth = extent_of(p.in.type.shape, 1, p.in.type.shape.size());
  TW_TRY(const Value in, reshaped(builder, p.in, {p.n(), depth}));
  TW_TRY(const Value rows, reshaped(builder, p.weight, {p.k, depth}));
  TW_TRY(const Value weight, transposed(builder, rows, {1, 0}));
  std::vector<Value> inputs = {in, weight};
  if (p.bias) inputs.push_back(*p.bias);
  const dsl::Attributes attributes = {
      {"m", p.n()}, {"n", p.k}, {"k", depth}, {"bias", p.bias ? 1 : 0}};
  return add_as(builder, {p.n(), p.k}, p.result_shape(), output, [&](const std::string& result) {
    return add_named(builder, "dense", attributes, p.in.type.dtype, inputs, result);
  });
}

/// Returns the indices of the element of the input that a convolution multiplies.
std::vector<Expr> element_indices(const Convolution& p, const Loops& loops) {
  std::vector<Expr> indices = at(loops.channels_read());
  indices.insert(indices.begin(), Expr(loops.n));
  for (size_t i = 0; i < p.windows.size(); ++i)
    indices.push_back(p.windows[i].position(loops.positions[i], loops.taps[i]));
  return indices;
}

Status add_expression(Builder& builder, const Convolution& p, const std::string& output) {
  const Loops loops(p);
  TW_TRY(const ConvolvedTensors tensors, tensors_of(builder, p, loops));
  Declaration declaration(builder);
  const DType type = p.in.type.dtype;
  const Expr x = select(is_inside(p.windows, loops.positions, loops.taps),
                        declaration.read(tensors.in).read_at(element_indices(p, loops)),
                        dsl::constant(type, 0));
  const Expr w = declaration.read(tensors.weight).read_at(at(loops.weight()));
  const dsl::Reduction total = sum(loops.reduction(), wide(x) * wide(w));
  const std::vector<Axis> out = loops.out();
  return add_as(builder, extents_of(out), p.result_shape(), output, [&](const std::string& result) {
    if (!tensors.bias) return declaration.add(reduced(out, total, type), result);
    const Tensor conv = compute("conv", out, total), bias = declaration.read(*tensors.bias);
    const Expr shift = wide(bias.read_at(at(loops.channels_written())));
    return declaration.add(compute("out", out, cast(type, conv.read_at(at(out)) + shift)), result);
  });
}

}  // namespace

Status convert_conv(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(Convolution p, convolution_of(node, node.input(0), node.input(1)));
  TW_RETURN_IF_ERROR(read_bias(node, 2, p));
  const std::string& output = node.outputs[0];
  if (is_dense(p)) return add_as_dense(builder, p, output);
  if (p.windows.size() > 2) return add_expression(builder, p, output);
  const Shape wanted = p.result_shape();
  if (p.windows.size() == 1) {
    TW_TRY(p, as_image(builder, p));
  }
  return add_conv2d(builder, p, wanted, output);
}

// ---- integers -------------------------------------------------------------------------------

namespace {

/// Subtracts from both factors their zero points, which are the inputs `x_zero` and `w_zero`.
Status center(const Node& node, Builder& builder, Convolution& p, size_t x_zero, size_t w_zero) {
  TW_TRY(p.in, centered(node, builder, p.in, x_zero, 1));
  TW_TRY(p.weight, centered(node, builder, p.weight, w_zero, 0));
  return {};
}

/// The stage "conv": the sum in i32, where padding is 0.
Tensor integer_convolution(Declaration& declaration, const Convolution& p, const Loops& loops,
                           const ConvolvedTensors& tensors) {
  const Expr element = declaration.read(tensors.in).read_at(element_indices(p, loops));
  const Expr x = select(is_inside(p.windows, loops.positions, loops.taps), element,
                        dsl::constant_int(element.type(), 0));
  const Expr w = declaration.read(tensors.weight).read_at(at(loops.weight()));
  return compute("conv", loops.out(), sum(loops.reduction(), cast(Int32, x) * cast(Int32, w)));
}

}  // namespace

Status convert_conv_integer(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 1}));
  TW_TRY(Convolution p, convolution_of(node, node.input(0), node.input(1)));
  TW_RETURN_IF_ERROR(center(node, builder, p, 2, 3));
  const Loops loops(p);
  TW_TRY(const ConvolvedTensors tensors, tensors_of(builder, p, loops));
  Declaration declaration(builder);
  const Tensor conv = integer_convolution(declaration, p, loops, tensors);
  return add_as(builder, extents_of(loops.out()), p.result_shape(), node.outputs[0],
                [&](const std::string& result) { return declaration.add(conv, result); });
}

Status convert_qlinear_conv(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_bytes(node, {0, 3}));
  TW_TRY(Convolution p, convolution_of(node, node.input(0), node.input(3)));
  TW_RETURN_IF_ERROR(read_bias(node, 8, p));
  TW_RETURN_IF_ERROR(center(node, builder, p, 2, 5));
  const Loops loops(p);
  TW_TRY(const ConvolvedTensors tensors, tensors_of(builder, p, loops));
  Declaration declaration(builder);
  const Tensor conv = integer_convolution(declaration, p, loops, tensors);
  const std::vector<Axis> out = loops.out();
  Expr total = conv.read_at(at(out));
  if (tensors.bias) {
    if (p.bias->type.dtype != Int32) return node.invalid("the bias is not i32");
    total = total + declaration.read(*tensors.bias).read_at(at(loops.channels_written()));
  }
  TW_TRY(const Expr quantized,
         requantized(node, declaration, total, {1, 4, 6, 7}, Expr(0), loops.channel()));
  return add_as(builder, extents_of(out), p.result_shape(), node.outputs[0],
                [&](const std::string& result) {
                  return declaration.add(compute("out", out, quantized), result);
                });
}

// ---- transposed -----------------------------------------------------------------------------

namespace {

/// One dimension of a transposed convolution: input position i adds to the output positions i *
/// stride + tap * dilation - before.
///
/// The output positions are split into phases. Position stride * q + phase, plus `before`, equals
/// stride * (q + quotient) + remainder, with a quotient and a remainder for each phase. The output
/// at this position is a sum over m, for all m for which the tap exists, of
///
///   input[q + quotient - step * m] * weight[tap],  tap * dilation = remainder + stride * step * m
///
/// With stride 2, 3 taps and before = 1:
///
///   output[2 q]     = input[q] * weight[1]
///   output[2 q + 1] = input[q + 1] * weight[0] + input[q] * weight[2]
///
/// The taps of a phase are the numbers m in reverse order, so that the input is read in increasing
/// order.
struct Spread {
  int64_t input, kernel, stride, dilation, before, output;

  int64_t phases() const { return std::min(stride, skipped() + output); }
  bool has_phases() const { return phases() != 1; }
  int64_t positions() const { return ceil_div(skipped() + output, stride); }
  /// Number of extra positions that are computed before the first output position. Without them the
  /// quotient would not be a sum of axes.
  int64_t skipped() const { return stride == 2 ? 0 : before % stride; }
  bool is_cropped() const { return positions() * phases() != output; }
  int64_t step() const { return dilation % stride == 0 ? dilation / stride : 1; }
  int64_t taps() const {
    return dilation % stride == 0 ? kernel : (kernel - 1) * dilation / stride + 1;
  }
  /// True if each phase has one tap, and the taps are those of the kernel in order.
  bool has_one_tap_a_phase() const {
    return taps() == 1 && phases() == kernel && !is_odd() && (dilation == 1 || kernel == 1);
  }

  /// The remainder of the positions of a phase.
  Expr remainder(const Expr& phase) const { return is_odd() ? Expr(1) - phase : phase; }
  /// Returns the input position that position q of a phase reads at a tap. Appends the conditions
  /// under which this position and the tap exist.
  Expr source(const Expr& q, const Expr& phase, const Expr& tap,
              std::vector<Expr>& conditions) const {
    const int64_t reach = step() * (taps() - 1) - before / stride;
    const int64_t high = before / stride + positions() - 1 + (is_odd() && has_phases() ? 1 : 0);
    const Expr quotient = is_odd() ? q + phase : q;
    const Expr place = quotient + tap * Expr(step()) - Expr(reach);
    if (reach > 0) conditions.push_back(Expr(0) <= place);
    if (high >= input) conditions.push_back(place < Expr(input));
    // The first phases may have one tap more than the later phases.
    const int64_t longest = (kernel - 1) % stride;
    if (dilation == 1 && longest < largest_remainder())
      conditions.push_back(remainder(phase) <= tap * Expr(stride - 1 - longest) + Expr(longest));
    return place;
  }
  /// Returns the tap of the kernel that corresponds to a tap of the phase. Appends the conditions
  /// under which the kernel has this tap.
  Expr tap_of_kernel(const Expr& phase, const Expr& tap, std::vector<Expr>& conditions) const {
    const int64_t pace = stride * step(), last = taps() - 1;
    const Expr place = remainder(phase) + (Expr(last) - tap) * Expr(pace);
    const Expr found = place / Expr(dilation);
    if (dilation > 1) conditions.push_back(eq(place % Expr(dilation), Expr(0)));
    if ((largest_remainder() + pace * last) / dilation >= kernel)
      conditions.push_back(found < Expr(kernel));
    return found;
  }

 private:
  /// True if phase 0 has the remainder 1 and phase 1 the remainder 0, because the stride is 2 and
  /// `before` is odd.
  bool is_odd() const { return stride == 2 && before % 2 == 1; }
  int64_t largest_remainder() const { return is_odd() ? 1 : phases() - 1; }
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

/// A transposed convolution of in [n, groups * c, ...] with weights [groups * c, k, taps...].
struct Transposed {
  Value in, weight;
  std::optional<Value> bias;
  int64_t groups = 1, c = 0, k = 0;  ///< channels that a group reads and writes
  std::vector<Spread> spreads;

  Shape taps() const { return {weight.type.shape.begin() + 2, weight.type.shape.end()}; }
  /// The shape of the result of all phases, which may be larger than the output.
  Shape whole_shape() const {
    Shape shape = {in.type.shape[0], groups * k};
    for (const Spread& s : spreads) shape.push_back(s.positions() * s.phases());
    return shape;
  }
};

Result<Transposed> transposed_of(const Node& node) {
  const Value &in = node.input(0), &weight = node.input(1);
  if (in.rank() < 3 || weight.rank() != in.rank() || weight.type.shape[0] != in.type.shape[1])
    return node.invalid("the weights do not fit the input");
  Transposed p = {in, weight, {}, 1, 0, weight.type.shape[1], {}};
  TW_TRY(p.groups, groups_of(node, in.type.shape[1]));
  p.c = in.type.shape[1] / p.groups;
  TW_RETURN_IF_ERROR(check_kernel_shape(node, p.taps()));
  TW_TRY(p.spreads, spreads_of(node, {in.type.shape.begin() + 2, in.type.shape.end()}, p.taps()));
  if (!node.has_input(2)) return p;
  p.bias = node.input(2);
  if (p.bias->type.shape == Shape{p.groups * p.k}) return p;
  return node.invalid("expected a bias a channel");
}

/// The axes of a transposed convolution by phases. A dimension with one phase has no axis for it.
struct PhaseLoops {
  Axis n, g, c, k;
  std::vector<Axis> positions, phases, taps;  ///< one of each for each spatial dimension

  explicit PhaseLoops(const Transposed& p)
      : n("n", p.in.type.shape[0]), g("g", p.groups), c("c", p.c), k("k", p.k) {
    for (size_t i = 0; i < p.spreads.size(); ++i) {
      const Spread& s = p.spreads[i];
      positions.emplace_back(fmt::format("q{}", i), s.positions());
      phases.emplace_back(fmt::format("p{}", i), s.phases());
      taps.emplace_back(fmt::format("t{}", i), s.taps());
    }
  }
  /// The phase of an element in dimension i: the axis of phases, or 0 if there is one phase.
  Expr phase(size_t i) const { return phases[i].extent == 1 ? Expr(0) : Expr(phases[i]); }
  std::vector<Axis> out() const {
    std::vector<Axis> axes = with_group({n}, k);
    for (size_t i = 0; i < positions.size(); ++i) {
      axes.push_back(positions[i]);
      append(phases[i], axes);
    }
    return axes;
  }
  /// The axes of the weights except the input channels, which are the first dimension.
  std::vector<Axis> weight() const {
    std::vector<Axis> axes = {k};
    for (size_t i = 0; i < taps.size(); ++i) {
      axes.push_back(taps[i]);
      append(phases[i], axes);
    }
    return axes;
  }
  std::vector<Axis> reduction() const {
    std::vector<Axis> axes = {c};
    axes.insert(axes.end(), taps.begin(), taps.end());
    return axes;
  }
  /// `axes`, then the axis of groups if there are several, then `channel`.
  std::vector<Axis> with_group(std::vector<Axis> axes, const Axis& channel) const {
    append(g, axes);
    axes.push_back(channel);
    return axes;
  }

 private:
  static void append(const Axis& axis, std::vector<Axis>& axes) {
    if (axis.extent != 1) axes.push_back(axis);
  }
};

/// Returns the weights of all phases, [groups * c, k, taps and phases]. An element is zero if its
/// phase has no such tap.
Result<Value> phase_weights(Builder& builder, const Transposed& p, const PhaseLoops& loops) {
  const Axis channel("gc", p.groups * p.c);
  std::vector<Axis> axes = loops.weight();
  axes.insert(axes.begin(), channel);
  if (std::ranges::all_of(p.spreads, &Spread::has_one_tap_a_phase))
    return reshaped(builder, p.weight, extents_of(axes));
  Declaration declaration(builder);
  std::vector<Expr> indices = {channel, loops.k}, conditions;
  for (size_t i = 0; i < p.spreads.size(); ++i) {
    indices.push_back(p.spreads[i].tap_of_kernel(loops.phase(i), loops.taps[i], conditions));
  }
  const Expr weight = declaration.read(p.weight).read_at(indices);
  const std::string name = builder.fresh_name(p.weight.name + ".phases");
  TW_RETURN_IF_ERROR(declaration.add(
      compute("out", axes, select(all_of(conditions), weight, number(weight, 0))), name));
  return builder.value(name);
}

/// Adds the sum of products of all phases, [n, (g,) k, positions and phases].
Status add_phases(Builder& builder, const Transposed& p, const std::string& output) {
  const PhaseLoops loops(p);
  std::vector<Axis> weight_axes = loops.weight();
  weight_axes.insert(weight_axes.begin(), loops.c);
  Shape in_shape = p.in.type.shape;
  if (p.groups > 1) {
    weight_axes.insert(weight_axes.begin(), loops.g);
    in_shape.insert(in_shape.begin() + 1, p.groups);
    in_shape[2] = p.c;
  }
  TW_TRY(const Value in, reshaped(builder, p.in, in_shape));
  TW_TRY(const Value phased, phase_weights(builder, p, loops));
  TW_TRY(const Value weight, reshaped(builder, phased, extents_of(weight_axes)));
  Declaration declaration(builder);
  const DType type = p.in.type.dtype;
  std::vector<Expr> source = at(loops.with_group({loops.n}, loops.c)), conditions;
  for (size_t i = 0; i < p.spreads.size(); ++i)
    source.push_back(
        p.spreads[i].source(loops.positions[i], loops.phase(i), loops.taps[i], conditions));
  const Expr x = select(all_of(conditions), declaration.read(in).read_at(std::move(source)),
                        dsl::constant(type, 0));
  const dsl::Reduction total =
      sum(loops.reduction(), wide(x) * wide(declaration.read(weight).read_at(at(weight_axes))));
  if (!p.bias) return declaration.add(reduced(loops.out(), total, type), output);
  const std::vector<Axis> channels = loops.with_group({}, loops.k);
  TW_TRY(const Value bias, reshaped(builder, *p.bias, extents_of(channels)));
  const Tensor conv = compute("conv", loops.out(), total);
  const Expr shift = wide(declaration.read(bias).read_at(at(channels)));
  const Expr shifted = conv.read_at(at(loops.out())) + shift;
  return declaration.add(compute("out", loops.out(), cast(type, shifted)), output);
}

/// Adds the output, which is a part of the tensor `whole` of all phases.
Status add_crop(Builder& builder, const Transposed& p, const std::string& whole,
                const std::string& output) {
  Shape shape = {p.in.type.shape[0], p.groups * p.k};
  for (const Spread& s : p.spreads) shape.push_back(s.output);
  const std::vector<Axis> axes = axes_of(shape);
  std::vector<Expr> indices = at(axes);
  for (size_t i = 0; i < p.spreads.size(); ++i)
    indices[2 + i] = indices[2 + i] + Expr(p.spreads[i].skipped());
  Declaration declaration(builder);
  return declaration.add(
      compute("out", axes, declaration.read(builder.value(whole)).read_at(indices)), output);
}

}  // namespace

// Without padding and dilation, out[stride * q + p] is the sum of in[q - m] * weight[p + stride *
// m] over m, so that each phase p is an ordinary convolution of stride 1. Positions and phases are
// dimensions of their own; their row-major order is the order of the output.
Status convert_conv_transpose(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const Transposed p, transposed_of(node));
  const std::string& output = node.outputs[0];
  const auto name_before = [&](bool has_next, const std::string& next) {
    return has_next ? builder.fresh_name(output) : next;
  };
  const bool is_cropped = std::ranges::any_of(p.spreads, &Spread::is_cropped);
  const bool is_split = p.groups > 1 || std::ranges::any_of(p.spreads, &Spread::has_phases);
  const std::string whole = name_before(is_cropped, output);
  const std::string phases = name_before(is_split, whole);
  TW_RETURN_IF_ERROR(add_phases(builder, p, phases));
  if (is_split)
    TW_RETURN_IF_ERROR(add_reshape(builder, builder.value(phases), p.whole_shape(), whole));
  return is_cropped ? add_crop(builder, p, whole, output) : Status();
}

// ---- along time -----------------------------------------------------------------------------

namespace {

/// Returns the element at `time` of the past state, followed by the input. The past state is input
/// 3 of the node, or `past` zeros if it is left out.
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
  if (is_activated) result = result * logistic(result);
  const Expr last = with_past(node, declaration, b, c, Expr(s) + Expr(t.extent), past);
  const DType type = in.type.dtype;
  return declaration.add({compute("out", {b, c, t}, cast(type, result)),
                          compute("present", {b, c, s}, cast(type, last))},
                         node.outputs);
}

}  // namespace tw::graph::onnx
