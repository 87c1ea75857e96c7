// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample. Output position y lies at (a y + b) / d in the input, a ratio of integers.
// So indices are an affine expression divided by d, and interpolation weights are computed from the
// remainder.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/integer.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {
namespace {

/// The largest size that is accepted, and the largest numerator or denominator of a ratio, so that
/// products fit 64 bits.
constexpr int64_t largest_size = int64_t{1} << 30;

/// A rational number in lowest terms with a positive denominator. If the numerator or the
/// denominator would be too large, the denominator is 0. The denominator of each result that is
/// computed from such a number is 0 too.
struct Ratio {
  int64_t num = 0, den = 1;

  bool is_valid() const { return den > 0; }
  double value() const { return static_cast<double>(num) / static_cast<double>(den); }
};

Ratio reduced_ratio(__int128 num, __int128 den) {
  if (den == 0) return {0, 0};
  if (den < 0) num = -num, den = -den;
  __int128 a = num < 0 ? -num : num, b = den;
  while (b != 0) a = std::exchange(b, a % b);
  num /= a;
  den /= a;
  if (num > largest_size || num < -largest_size || den > largest_size) return {0, 0};
  return {static_cast<int64_t>(num), static_cast<int64_t>(den)};
}

Ratio operator+(Ratio a, Ratio b) {
  return reduced_ratio(__int128{a.num} * b.den + __int128{b.num} * a.den, __int128{a.den} * b.den);
}
Ratio operator*(Ratio a, Ratio b) {
  return reduced_ratio(__int128{a.num} * b.num, __int128{a.den} * b.den);
}
Ratio operator-(Ratio a, Ratio b) { return a + Ratio{-1, 1} * b; }
Ratio operator/(Ratio a, Ratio b) {
  if (!a.is_valid() || !b.is_valid()) return {0, 0};
  return reduced_ratio(__int128{a.num} * b.den, __int128{a.den} * b.num);
}

/// Returns the simplest ratio that rounds to this f32, because a scale such as 0.6 stands for 3/5.
/// The result is not valid if there is no such ratio of small numbers.
Ratio simplest_ratio(double value) {
  if (!std::isfinite(value) || std::fabs(value) > 1e9) return {0, 0};
  int64_t num = 1, den = 0, last_num = 0, last_den = 1;  // convergents of the continued fraction
  double rest = std::fabs(value);
  for (int i = 0; i < 40; ++i) {
    const auto whole = static_cast<int64_t>(std::floor(rest));
    last_num = std::exchange(num, whole * num + last_num);
    last_den = std::exchange(den, whole * den + last_den);
    const double found = static_cast<double>(num) / static_cast<double>(den);
    const bool is_exact = std::fabs(found - std::fabs(value)) <= 6e-8 * std::fabs(value);
    if (is_exact) return {value < 0 ? -num : num, den};
    if (den > int64_t{1} << 30) break;
    rest = 1 / (rest - static_cast<double>(whole));
  }
  return {0, 0};
}

enum class Interpolation { Nearest, Linear, Cubic };

/// Attributes of a node that decide which elements of the input are read, and with which weights.
/// The sizes are members of Resized.
struct Sampling {
  Interpolation interpolation = Interpolation::Nearest;
  std::string coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic = -0.75, extrapolation = 0;
  bool excludes_outside = false, antialiases = false;
  /// A nearest position is rounded up in dimensions that become smaller, whatever `nearest` says.
  bool rounds_up_where_smaller = false;
};

/// One dimension that is resized: output position y lies at (a y + b) / d of the input.
struct Resized {
  int64_t input = 0, output = 0;
  Ratio scale;
  /// Region that tf_crop_and_resize reads; 0 and 1 are the ends of the input.
  Ratio start = {0, 1}, end = {1, 1};
  int64_t a = 0, b = 0, d = 1;

  bool is_identity() const { return a == d && b == 0 && input == output; }
  Expr position(const Expr& y) const { return y * Expr(a) + Expr(b); }
};

/// Finds a, b and d from factor * y + offset.
Status set_position(const Node& node, Resized& r, Ratio factor, Ratio offset) {
  if (!factor.is_valid() || !offset.is_valid())
    return node.unsupported("a scale that is no ratio of small numbers");
  const int64_t common = std::lcm(factor.den, offset.den);
  const Ratio a = factor * Ratio{common, 1}, b = offset * Ratio{common, 1};
  if (!a.is_valid() || !b.is_valid() || common > largest_size)
    return node.unsupported("a scale that is no ratio of small numbers");
  r.a = a.num;
  r.b = b.num;
  r.d = common;
  return {};
}

/// Sets a, b and d by the coordinate transformation that `sampling` names, as ONNX defines it.
Status place(const Node& node, const Sampling& sampling, Resized& r) {
  const Ratio one = {1, 1}, half = {1, 2}, zero = {0, 1};
  const Ratio input = {r.input, 1}, resized = r.scale * input;
  const bool is_single = resized.num == resized.den;
  const std::string& mode = sampling.coordinates;
  const Ratio step = one / r.scale, centred = half * step - half;
  if (mode == "asymmetric") return set_position(node, r, step, zero);
  if (mode == "half_pixel") return set_position(node, r, step, centred);
  if (mode == "pytorch_half_pixel")
    return is_single ? set_position(node, r, zero, zero) : set_position(node, r, step, centred);
  if (mode == "half_pixel_symmetric") {
    const Ratio adjustment = Ratio{r.output, 1} / resized;
    return set_position(node, r, step, input * half * (one - adjustment) + centred);
  }
  const Ratio span = input - one;
  if (mode == "align_corners")
    return set_position(node, r, is_single ? zero : span / (resized - one), zero);
  if (mode == "tf_crop_and_resize") {
    const Ratio part = (r.end - r.start) * span;
    return is_single ? set_position(node, r, zero, part * half + r.start * span)
                     : set_position(node, r, part / (resized - one), r.start * span);
  }
  return node.unsupported(fmt::format("coordinate_transformation_mode='{}'", mode));
}

// ---- taps -----------------------------------------------------------------------------------

/// An input position and its weight; the weight is undefined where it is 1.
struct Tap {
  Expr index, weight;
};

/// Returns the index, clamped to the input. The index lies in [least, most], and clamps that this
/// range makes unnecessary are left out.
Expr clamped_index(const Resized& r, const Expr& index, int64_t least, int64_t most) {
  const Expr low = least < 0 ? max(index, Expr(0)) : index;
  return most >= r.input ? min(low, Expr(r.input - 1)) : low;
}

/// Returns the least and the largest floor((a y + b + shift) / d) over all output positions y.
std::pair<int64_t, int64_t> range_of(const Resized& r, int64_t shift) {
  const int64_t first = r.b + shift, last = r.a * (r.output - 1) + r.b + shift;
  return {floor_div(std::min(first, last), r.d), floor_div(std::max(first, last), r.d)};
}

Result<std::vector<Tap>> nearest_tap(const Node& node, const Sampling& sampling, const Resized& r,
                                     const Expr& y) {
  // Computes floor((a y + b) / d + 1/2) and similar roundings with the numerator and the
  // denominator doubled.
  Resized doubled = r;
  doubled.a *= 2, doubled.b *= 2, doubled.d *= 2;
  int64_t shift = 0;
  const bool rounds_up = sampling.rounds_up_where_smaller && r.scale.value() < 1;
  if (rounds_up || sampling.nearest == "ceil") shift = doubled.d - 1;
  if (sampling.nearest == "round_prefer_floor") shift = r.d - 1;
  if (sampling.nearest == "round_prefer_ceil") shift = r.d;
  if (shift == 0 && sampling.nearest != "floor" && sampling.nearest != "round_prefer_floor")
    return node.unsupported(fmt::format("nearest_mode='{}'", sampling.nearest));
  const auto [least, most] = range_of(doubled, shift);
  const Expr index = (doubled.position(y) + Expr(shift)) / Expr(doubled.d);
  return std::vector<Tap>{{clamped_index(r, index, least, most), Expr()}};
}

/// Returns the input positions around the point of output position y, with their weights.
std::vector<Tap> interpolation_taps(const Sampling& sampling, const Resized& r, const Expr& y,
                                    DType type) {
  const bool is_cubic = sampling.interpolation == Interpolation::Cubic;
  const Expr place = r.position(y), below = place / Expr(r.d);
  const Expr t = cast(type, place % Expr(r.d)) / dsl::constant(type, static_cast<double>(r.d));
  std::vector<Expr> weights =
      is_cubic ? cubic_weights(t, sampling.cubic) : std::vector<Expr>{number(t, 1) - t, t};
  const auto [least, most] = range_of(r, 0);
  std::vector<Tap> taps;
  std::vector<Expr> inside;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t shift = static_cast<int64_t>(i) - (is_cubic ? 1 : 0);
    const Expr index = below + Expr(shift);
    taps.push_back({clamped_index(r, index, least + shift, most + shift), weights[i]});
    inside.push_back(Expr(0) <= index && index < Expr(r.input));
  }
  if (!sampling.excludes_outside) return taps;
  Expr total;
  for (size_t i = 0; i < taps.size(); ++i) {
    taps[i].weight = select(inside[i], weights[i], number(t, 0));
    total = i == 0 ? taps[i].weight : total + taps[i].weight;
  }
  for (Tap& tap : taps) tap.weight = tap.weight / total;
  return taps;
}

Result<std::vector<Tap>> taps_of(const Node& node, const Sampling& sampling, const Resized& r,
                                 const Expr& y, DType type) {
  if (r.is_identity()) return std::vector<Tap>{{y, Expr()}};
  // All taps would read the only element. As weights add up to 1, the result is this element.
  if (r.input == 1) return std::vector<Tap>{{Expr(0), Expr()}};
  if (sampling.interpolation == Interpolation::Nearest) return nearest_tap(node, sampling, r, y);
  if (sampling.antialiases && r.scale.value() < 1) return node.unsupported("antialias=1");
  return interpolation_taps(sampling, r, y, type);
}

/// Returns the weighted sum over the taps of dimension `depth` and of the dimensions after it.
/// `indices` has the indices in the dimensions before.
Expr interpolate(const Tensor& in, const std::vector<std::vector<Tap>>& taps,
                 std::vector<Expr>& indices, size_t depth) {
  if (depth == taps.size()) {
    const Expr element = in.read_at(indices);
    return element;
  }
  Expr total;
  for (const Tap& tap : taps[depth]) {
    indices[depth] = tap.index;
    const Expr inner = interpolate(in, taps, indices, depth + 1);
    if (!tap.weight.defined()) return inner;
    const Expr term = tap.weight * wide(inner);
    total = total.defined() ? total + term : term;
  }
  return total;
}

Status add_resize(const Node& node, Builder& builder, const Sampling& sampling,
                  std::vector<Resized> dimensions) {
  const Value& value = node.input(0);
  if (sampling.interpolation != Interpolation::Nearest)
    TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  Shape shape;
  for (const Resized& r : dimensions) shape.push_back(r.output);
  const std::vector<Axis> axes = axes_of(shape);
  std::vector<std::vector<Tap>> taps;
  std::vector<Expr> inside;
  size_t reads = 1;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    Resized& r = dimensions[i];
    if (r.input == 0 || r.output == 0) return node.unsupported("a tensor without elements");
    TW_RETURN_IF_ERROR(place(node, sampling, r));
    TW_TRY(std::vector<Tap> found,
           taps_of(node, sampling, r, axes[i], wide_type(value.type.dtype)));
    reads *= found.size();
    taps.push_back(std::move(found));
    if (sampling.coordinates != "tf_crop_and_resize") continue;
    inside.push_back(Expr(0) <= r.position(axes[i]));
    inside.push_back(r.position(axes[i]) <= Expr((r.input - 1) * r.d));
  }
  if (reads > 256) return node.unsupported("an interpolation over so many dimensions");
  Declaration declaration(builder);
  std::vector<Expr> indices(axes.size());
  Expr element = interpolate(declaration.read(value), taps, indices, 0);
  element = select(all_of(inside), element, number(element, sampling.extrapolation));
  return declaration.add(compute("out", axes, cast(value.type.dtype, element)), node.outputs[0]);
}

// ---- attributes -----------------------------------------------------------------------------

Result<Interpolation> interpolation_of(const Node& node) {
  TW_TRY(const std::string mode, node.text("mode", "nearest"));
  if (mode == "nearest") return Interpolation::Nearest;
  if (mode == "linear" || mode == "bilinear") return Interpolation::Linear;
  if (mode == "cubic") return Interpolation::Cubic;
  return node.unsupported(fmt::format("mode='{}'", mode));
}

Result<Sampling> sampling_of(const Node& node) {
  Sampling sampling;
  TW_TRY(sampling.interpolation, interpolation_of(node));
  TW_TRY(sampling.coordinates, node.text("coordinate_transformation_mode", sampling.coordinates));
  TW_TRY(sampling.nearest, node.text("nearest_mode", sampling.nearest));
  TW_TRY(sampling.cubic, node.number("cubic_coeff_a", sampling.cubic));
  TW_TRY(sampling.extrapolation, node.number("extrapolation_value", 0));
  TW_TRY(const int64_t excludes_outside, node.integer("exclude_outside", 0));
  TW_TRY(const int64_t antialiases, node.integer("antialias", 0));
  sampling.excludes_outside = excludes_outside != 0;
  sampling.antialiases = antialiases != 0;
  return sampling;
}

/// Returns all dimensions of the node's input, marked as dimensions that are not resized.
std::vector<Resized> unchanged(const Shape& shape) {
  std::vector<Resized> dimensions;
  for (const int64_t extent : shape) {
    Resized r;
    r.input = r.output = extent;
    r.scale = {1, 1};
    dimensions.push_back(r);
  }
  return dimensions;
}

Status set_scales(const Node& node, const std::vector<double>& scales,
                  const std::vector<size_t>& axes, std::vector<Resized>& dimensions) {
  if (scales.size() != axes.size()) return node.invalid("expected a scale for each axis");
  for (size_t i = 0; i < axes.size(); ++i) {
    Resized& r = dimensions[axes[i]];
    r.scale = simplest_ratio(scales[i]);
    const Ratio resized = r.scale * Ratio{r.input, 1};
    if (!resized.is_valid() || scales[i] <= 0)
      return node.invalid(fmt::format("a scale of {}", scales[i]));
    r.output = floor_div(resized.num, resized.den);
  }
  return {};
}

Status set_sizes(const Node& node, const std::vector<int64_t>& sizes,
                 const std::vector<size_t>& axes, std::vector<Resized>& dimensions) {
  TW_TRY(const std::string policy, node.text("keep_aspect_ratio_policy", "stretch"));
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return node.unsupported(fmt::format("keep_aspect_ratio_policy='{}'", policy));
  if (sizes.size() != axes.size()) return node.invalid("expected a size for each axis");
  std::optional<Ratio> common;
  for (size_t i = 0; i < axes.size(); ++i) {
    Resized& r = dimensions[axes[i]];
    r.output = sizes[i];
    r.scale = Ratio{sizes[i], 1} / Ratio{r.input, 1};
    if (sizes[i] < 0 || sizes[i] > largest_size || !r.scale.is_valid())
      return node.invalid(fmt::format("a size of {}", sizes[i]));
    const bool is_less = common && r.scale.value() < common->value();
    if (!common || is_less == (policy == "not_larger")) common = r.scale;
  }
  if (policy == "stretch") return {};
  for (const size_t axis : axes) {
    Resized& r = dimensions[axis];
    r.scale = *common;
    const Ratio rounded = r.scale * Ratio{r.input, 1} + Ratio{1, 2};
    if (!rounded.is_valid()) return node.invalid("sizes out of range");
    r.output = floor_div(rounded.num, rounded.den);
  }
  return {};
}

/// Sets the region that tf_crop_and_resize reads. Input 1 has the starts for all axes, then the
/// ends.
Status set_region(const Node& node, const std::vector<size_t>& axes,
                  std::vector<Resized>& dimensions) {
  TW_TRY(const std::vector<double> region, node.constant_numbers(1));
  if (region.size() != 2 * axes.size()) return node.invalid("expected a region for each axis");
  for (size_t i = 0; i < axes.size(); ++i) {
    dimensions[axes[i]].start = simplest_ratio(region[i]);
    dimensions[axes[i]].end = simplest_ratio(region[axes.size() + i]);
  }
  return {};
}

bool has_elements(const Node& node, size_t index) {
  return node.has_input(index) && extent_of(node.input(index).type.shape) > 0;
}

}  // namespace

Status convert_resize(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_TRY(const Sampling sampling, sampling_of(node));
  std::vector<int64_t> all(value.type.shape.size());
  std::iota(all.begin(), all.end(), 0);
  TW_TRY(const std::vector<int64_t> given, node.integers("axes", all));
  TW_TRY(const std::vector<size_t> axes, axes_of_list(node, given, value.rank()));
  std::vector<Resized> dimensions = unchanged(value.type.shape);
  if (has_elements(node, 3)) {
    TW_TRY(const std::vector<int64_t> sizes, node.constant_integers(3));
    TW_RETURN_IF_ERROR(set_sizes(node, sizes, axes, dimensions));
  } else if (has_elements(node, 2)) {
    TW_TRY(const std::vector<double> scales, node.constant_numbers(2));
    TW_RETURN_IF_ERROR(set_scales(node, scales, axes, dimensions));
  } else {
    return node.invalid("neither scales nor sizes");
  }
  if (sampling.coordinates == "tf_crop_and_resize")
    TW_RETURN_IF_ERROR(set_region(node, axes, dimensions));
  return add_resize(node, builder, sampling, std::move(dimensions));
}

Status convert_upsample(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  Sampling sampling;
  TW_TRY(sampling.interpolation, interpolation_of(node));
  sampling.coordinates = "asymmetric";
  sampling.nearest = "floor";
  // Opset 10 does not define how Resize rounds. ONNX Runtime, and ONNX's own test of that opset,
  // round up where a dimension becomes smaller.
  sampling.rounds_up_where_smaller = node.op_type == "Resize";
  std::vector<double> scales;
  if (node.has_input(1)) {
    TW_TRY(scales, node.constant_numbers(1));
  } else {
    const auto found = node.attributes.find("scales");
    const auto* listed =
        found == node.attributes.end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
    if (!listed) return node.invalid("scales are missing");
    scales = *listed;
  }
  std::vector<size_t> axes(value.type.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::vector<Resized> dimensions = unchanged(value.type.shape);
  TW_RETURN_IF_ERROR(set_scales(node, scales, axes, dimensions));
  return add_resize(node, builder, sampling, std::move(dimensions));
}

}  // namespace tw::graph::onnx
