// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sliding windows of convolutions and poolings, with the padding that a node's attributes ask for.
// Private to graph/onnx.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {

/// The largest valid extent, stride and padding. Sums of products of two such numbers fit 64 bits.
inline constexpr int64_t largest_window = int64_t{1} << 30;

/// One spatial dimension: the window at output position y reads the input positions
/// y * stride + tap * dilation - before for tap in [0, kernel).
struct Window {
  int64_t input = 0, kernel = 0, stride = 1, dilation = 1, before = 0, after = 0, output = 0;

  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  Expr position(const Expr& y, const Expr& tap) const;
  /// Appends the comparisons with the input's extent that can fail.
  void guard(const Expr& position, std::vector<Expr>& conditions) const;
  /// Number of taps of the window at output position y whose input position is in [low, high).
  Expr count_taps(const Expr& y, int64_t low, int64_t high) const;
};

/// The windows of a node, one for each spatial dimension, by the attributes strides, dilations,
/// pads, auto_pad and ceil_mode. `input` and `kernel` are spatial extents. With ceil_mode, `after`
/// is the padding that the last window reads.
Result<std::vector<Window>> windows_of(const Node& node, const Shape& input, const Shape& kernel);

/// The number of output positions of each window: the spatial extents of the output.
Shape outputs_of(const std::vector<Window>& windows);

/// The element of `in` that the windows read at these positions and taps, or `otherwise` in the
/// padding. `prefix` are the indices of the dimensions before the spatial ones.
Expr windowed_read(const Tensor& in, std::vector<Expr> prefix, const std::vector<Window>& windows,
                   const std::vector<Axis>& positions, const std::vector<Axis>& taps,
                   const Expr& otherwise);
/// The condition that the windows at these positions and taps read elements of the input, not of
/// its padding.
Expr is_inside(const std::vector<Window>& windows, const std::vector<Axis>& positions,
               const std::vector<Axis>& taps);

/// An attribute that has `count` numbers, each of which is `otherwise` if the attribute is absent.
/// Invalid if the attribute has another length, or if a number is below `least` or above
/// largest_window.
Result<std::vector<int64_t>> per_dimension(const Node& node, std::string_view attribute,
                                           size_t count, int64_t otherwise, int64_t least);

}  // namespace tw::graph::onnx
