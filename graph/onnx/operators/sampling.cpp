// SPDX-License-Identifier: Apache-2.0
// Sampling at positions that are data: grids of affine maps, and interpolation of the elements
// around the positions of a grid. Reads outside of the tensor are guarded, or their position is
// moved inside.
#include <fmt/format.h>

#include <string>

#include "graph/onnx/declaration.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {

Status convert_affine_grid(const Node& node, Builder& builder) {
  const Value& map = node.input(0);
  TW_RETURN_IF_ERROR(check_float(node, map.type.dtype));
  TW_TRY(const std::vector<int64_t> size, node.constant_integers(1));
  TW_TRY(const int64_t aligns_corners, node.integer("align_corners", 0));
  if (size.size() < 4 || size.size() > 5) return node.invalid("expected an image or a volume");
  const int64_t rank = std::ssize(size) - 2;
  for (const int64_t extent : size)
    if (extent < 1) return node.invalid(fmt::format("an extent of {}", extent));
  if (map.type.shape != Shape{size[0], rank, rank + 1})
    return node.invalid("the matrices do not fit the size");
  Shape shape = {size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(rank);
  const std::vector<Axis> o = axes_of(shape);
  Declaration declaration(builder);
  const Tensor in = declaration.read(map);
  const Expr &batch = o.front(), &row = o.back();
  Expr place = wide(in(batch, row, Expr(rank)));
  // Column 0 belongs to x, which is the last dimension of the image.
  for (int64_t column = 0; column < rank; ++column) {
    const Axis& along = o[static_cast<size_t>(rank - column)];
    const auto extent = static_cast<double>(along.extent);
    const Expr position = cast(place.type(), Expr(along));
    const double step = 2 / (aligns_corners ? std::max(extent - 1, 1.0) : extent);
    const double first = aligns_corners ? -1 : step / 2 - 1;
    place = place + wide(in(batch, row, Expr(column))) *
                        (position * number(position, step) + number(position, first));
  }
  return declaration.add(compute("out", o, cast(map.type.dtype, place)), node.outputs[0]);
}

namespace {

enum class Outside { Zeros, Border, Reflection };

struct GridSampling {
  std::string mode;
  Outside outside = Outside::Zeros;
  bool aligns_corners = false;
};

Result<GridSampling> grid_sampling_of(const Node& node) {
  GridSampling sampling;
  TW_TRY(sampling.mode, node.text("mode", "linear"));
  if (sampling.mode == "bilinear") sampling.mode = "linear";
  if (sampling.mode == "bicubic") sampling.mode = "cubic";
  if (sampling.mode != "linear" && sampling.mode != "nearest" && sampling.mode != "cubic")
    return node.unsupported(fmt::format("mode='{}'", sampling.mode));
  TW_TRY(const std::string outside, node.text("padding_mode", "zeros"));
  if (outside == "border")
    sampling.outside = Outside::Border;
  else if (outside == "reflection")
    sampling.outside = Outside::Reflection;
  else if (outside != "zeros")
    return node.unsupported(fmt::format("padding_mode='{}'", outside));
  TW_TRY(const int64_t aligns_corners, node.integer("align_corners", 0));
  sampling.aligns_corners = aligns_corners != 0;
  return sampling;
}

/// An element along one dimension that takes part in an interpolation. An undefined `is_inside`
/// means true, and an undefined `weight` means 1.
struct GridTap {
  Expr index, is_inside, weight;
};

/// Returns the position, in a dimension of `extent` elements, of a coordinate in [-1, 1].
Expr denormalized(const GridSampling& sampling, const Expr& x, int64_t extent) {
  const auto n = static_cast<double>(extent);
  const auto f = [&](double value) { return number(x, value); };
  if (sampling.aligns_corners) return (x + f(1)) * f((n - 1) / 2);
  return ((x + f(1)) * f(n) - f(1)) * f(0.5);
}

/// Returns the position, clamped to [0, extent - 1] if it lies beyond the borders of the tensor.
/// The borders are the outermost elements if corners are aligned, else half an element further out.
Expr kept_inside(const GridSampling& sampling, const Expr& place, int64_t extent) {
  const double slack = sampling.aligns_corners ? 0 : 0.5;
  const auto f = [&](double value) { return number(place, value); };
  const double last = static_cast<double>(extent - 1);
  const Expr is_beyond = place < f(-slack) || f(last + slack) < place;
  return select(is_beyond, clamp(place, f(0), f(last)), place);
}

GridTap tap_at(const GridSampling& sampling, const Expr& index, const Expr& weight,
               int64_t extent) {
  const Expr zero(0), last(extent - 1);
  switch (sampling.outside) {
    case Outside::Zeros:
      return {index, zero <= index && index <= last, weight};
    case Outside::Border:
      return {clamp(index, zero, last), Expr(), weight};
    case Outside::Reflection:
      break;
  }
  // With aligned corners, positions are reflected at the outermost elements, with the period 2 *
  // extent - 2; else half an element outside of them, with the period 2 * extent.
  const int64_t turn = sampling.aligns_corners ? 2 * (extent - 1) : 2 * extent - 1;
  const int64_t period = sampling.aligns_corners ? std::max<int64_t>(turn, 1) : turn + 1;
  const Expr within = index % Expr(period);
  return {clamp(min(within, Expr(turn) - within), zero, last), Expr(), weight};
}

std::vector<GridTap> grid_taps(const GridSampling& sampling, const Expr& coordinate,
                               int64_t extent) {
  Expr place = denormalized(sampling, coordinate, extent);
  if (sampling.mode == "nearest") place = dsl::round(place);
  if (sampling.outside == Outside::Border) place = kept_inside(sampling, place, extent);
  const Expr below = floor(place), index = cast(Int64, below), t = place - below;
  if (sampling.mode == "nearest") return {tap_at(sampling, index, Expr(), extent)};
  const bool is_cubic = sampling.mode == "cubic";
  const std::vector<Expr> weights =
      is_cubic ? cubic_weights(t, -0.75) : std::vector<Expr>{number(t, 1) - t, t};
  std::vector<GridTap> taps;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t shift = static_cast<int64_t>(i) - (is_cubic ? 1 : 0);
    taps.push_back(tap_at(sampling, index + Expr(shift), weights[i], extent));
  }
  return taps;
}

/// Returns the weighted sum over the taps of dimension `depth` and of the dimensions after it.
/// `indices` has the indices in the dimensions before, and `inside` the conditions of their taps.
Expr interpolated(const Tensor& in, const std::vector<std::vector<GridTap>>& taps,
                  const std::vector<Expr>& inside, std::vector<Expr>& indices, size_t depth) {
  if (depth == taps.size()) {
    const Expr element = wide(in.read_at(indices));
    return inside.empty() ? element : select(all_of(inside), element, number(element, 0));
  }
  Expr total;
  for (const GridTap& tap : taps[depth]) {
    std::vector<Expr> conditions = inside;
    if (tap.is_inside.defined()) conditions.push_back(tap.is_inside);
    indices[depth + 2] = tap.index;
    const Expr inner = interpolated(in, taps, conditions, indices, depth + 1);
    if (!tap.weight.defined()) return inner;
    const Expr term = tap.weight * inner;
    total = total.defined() ? total + term : term;
  }
  return total;
}

}  // namespace

Status convert_grid_sample(const Node& node, Builder& builder) {
  const Value &value = node.input(0), &grid = node.input(1);
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  TW_RETURN_IF_ERROR(check_float(node, grid.type.dtype));
  TW_TRY(const GridSampling sampling, grid_sampling_of(node));
  const Shape &from = value.type.shape, &places = grid.type.shape;
  const size_t rank = from.size() - std::min<size_t>(from.size(), 2);
  if (rank < 1 || places.size() != rank + 2 || places.back() != static_cast<int64_t>(rank) ||
      places[0] != from[0])
    return node.invalid("the grid does not fit the tensor");
  if (rank > 3 || (rank > 2 && sampling.mode == "cubic"))
    return node.unsupported(fmt::format("mode='{}' in {} dimensions", sampling.mode, rank));
  if (extent_of(from) == 0) return node.unsupported("a tensor without elements");
  Shape shape = {from[0], from[1]};
  shape.insert(shape.end(), places.begin() + 1, places.end() - 1);
  const std::vector<Axis> o = axes_of(shape);
  Declaration declaration(builder);
  const Tensor in = declaration.read(value), at_places = declaration.read(grid);
  std::vector<Expr> place = {o[0]};
  for (size_t i = 0; i < rank; ++i) place.emplace_back(o[i + 2]);
  place.emplace_back();
  std::vector<std::vector<GridTap>> taps;
  for (size_t i = 0; i < rank; ++i) {
    // Coordinate 0 of a grid is x, the last dimension.
    place.back() = Expr(static_cast<int64_t>(rank - 1 - i));
    taps.push_back(grid_taps(sampling, wide(at_places.read_at(place)), from[i + 2]));
  }
  std::vector<Expr> indices = {o[0], o[1]};
  indices.resize(rank + 2);
  const Expr result = interpolated(in, taps, {}, indices, 0);
  return declaration.add(compute("out", o, cast(value.type.dtype, result)), node.outputs[0]);
}

}  // namespace tw::graph::onnx
