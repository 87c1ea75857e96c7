// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sliding windows of convolutions and poolings, with the paddings that attributes ask for. Private
// to graph/onnx.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {

/// Extents, strides and paddings that are larger are invalid, so that sums of their products fit.
inline constexpr int64_t largest_window = int64_t{1} << 30;

/// One spatial dimension: the window at output position y reads the input positions
/// y * stride + tap * dilation - before for tap in [0, kernel).
struct Window {
  int64_t input = 0, kernel = 0, stride = 1, dilation = 1, before = 0, after = 0, output = 0;

  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  Expr position(const Expr& y, const Expr& tap) const;
  /// Appends the comparisons with the input's extent that can fail.
  void guard(const Expr& position, std::vector<Expr>& conditions) const;
  /// Number of taps at output position y inside of [low, high) of the input's positions.
  Expr count_taps(const Expr& y, int64_t low, int64_t high) const;
};

/// The windows of a node over an input with these spatial extents, after the attributes strides,
/// dilations, pads, auto_pad and ceil_mode. Under ceil_mode, `after` is where the last window ends.
Result<std::vector<Window>> windows_of(const Node& node, const Shape& input, const Shape& kernel);

/// Output positions of all windows, as extents.
Shape outputs_of(const std::vector<Window>& windows);

/// The element of `in` that the windows read at `prefix` and these positions and taps, or
/// `otherwise` in the padding.
Expr windowed_read(const Tensor& in, std::vector<Expr> prefix, const std::vector<Window>& windows,
                   const std::vector<Axis>& positions, const std::vector<Axis>& taps,
                   const Expr& otherwise);
/// The condition that the windows at these positions and taps read elements of the input, not of
/// its padding.
Expr is_inside(const std::vector<Window>& windows, const std::vector<Axis>& positions,
               const std::vector<Axis>& taps);

/// The attribute, which has a number for each of `count` dimensions and, where `both_ends`, for
/// each end of them; all of them `otherwise` where it is absent. Invalid where one is below `least`
/// or beyond largest_window.
Result<std::vector<int64_t>> per_dimension(const Node& node, std::string_view attribute,
                                           size_t count, int64_t otherwise, int64_t least);

}  // namespace tw::graph::onnx
