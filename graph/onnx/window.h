// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sliding windows of convolutions and poolings, with the padding that a node's attributes ask for.
// Private to graph/onnx.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {

/// The largest valid extent, stride, dilation and padding of a window. Sums of products of two such
/// numbers fit 64 bits.
inline constexpr int64_t largest_window = int64_t{1} << 30;

/// The window in one spatial dimension. At output position y it reads the input positions y *
/// stride + tap * dilation - before, for each tap in [0, kernel). With stride 2, 3 taps and before
/// = 1, the window at y = 0 reads -1 (padding), 0 and 1, and at y = 1 it reads 1, 2 and 3. `before`
/// and `after` are the padding; `input` and `output` are extents.
struct Window {
  int64_t input = 0, kernel = 0, stride = 1, dilation = 1, before = 0, after = 0, output = 0;

  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  Expr position(const Expr& y, const Expr& tap) const;
  /// Appends the conditions that `position` lies inside of the input: 0 <= position, and position <
  /// input. A condition that always holds is left out.
  void guard(const Expr& position, std::vector<Expr>& conditions) const;
  /// Returns the number of taps of the window at output position y that read an input position in
  /// [low, high).
  Expr count_taps(const Expr& y, int64_t low, int64_t high) const;
};

/// Returns the windows of a node, one for each spatial dimension. `input` and `kernel` are the
/// spatial extents. The attributes strides, dilations, pads, auto_pad and ceil_mode give the other
/// numbers. With ceil_mode, `after` is the padding that the last window reads.
Result<std::vector<Window>> windows_of(const Node& node, const Shape& input, const Shape& kernel);

/// Returns the number of output positions of each window: the spatial extents of the output.
Shape outputs_of(const std::vector<Window>& windows);

/// Returns the element of `in` that the windows read at these output positions and taps, or
/// `otherwise` if they read padding. `prefix` has the indices of the dimensions before the spatial
/// ones, such as batch and channel.
Expr windowed_read(const Tensor& in, std::vector<Expr> prefix, const std::vector<Window>& windows,
                   const std::vector<Axis>& positions, const std::vector<Axis>& taps,
                   const Expr& otherwise);
/// Returns the condition that the windows at these output positions and taps read elements of the
/// input, not of its padding.
Expr is_inside(const std::vector<Window>& windows, const std::vector<Axis>& positions,
               const std::vector<Axis>& taps);

/// Returns the numbers of an attribute, or `count` times `otherwise` if the attribute is absent.
/// Fails with Invalid if there are not exactly `count` numbers, or if a number is below `least` or
/// above largest_window.
Result<std::vector<int64_t>> per_dimension(const Node& node, std::string_view attribute,
                                           size_t count, int64_t otherwise, int64_t least);

}  // namespace tw::graph::onnx
