// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/window.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/integer.h"

namespace tw::graph::onnx {

Expr Window::position(const Expr& y, const Expr& tap) const {
  return y * Expr(stride) + tap * Expr(dilation) - Expr(before);
}

void Window::guard(const Expr& position, std::vector<Expr>& conditions) const {
  if (before > 0) conditions.push_back(Expr(0) <= position);
  if ((output - 1) * stride + reach() - 1 - before >= input)
    conditions.push_back(position < Expr(input));
}

Expr Window::count_taps(const Expr& y, int64_t low, int64_t high) const {
  const Expr first = position(y, Expr(0));
  const Expr taps(kernel), step(dilation);
  // Numbers of taps that read positions below `low` and below `high`: the distance from the first
  // position divided by the dilation, rounded up.
  const Expr below_low = max((Expr(low + dilation - 1) - first) / step, Expr(0));
  const Expr below_high = min((Expr(high + dilation - 1) - first) / step, taps);
  return below_high - below_low;
}

Result<std::vector<int64_t>> per_dimension(const Node& node, std::string_view attribute,
                                           size_t count, int64_t otherwise, int64_t least) {
  TW_TRY(const std::vector<int64_t> values,
         node.integers(attribute, std::vector<int64_t>(count, otherwise)));
  if (values.size() != count)
    return node.invalid(
        fmt::format("{} has {} numbers, expected {}", attribute, values.size(), count));
  for (const int64_t value : values)
    if (value < least || value > largest_window)
      return node.invalid(fmt::format("{}={}", attribute, value));
  return values;
}

namespace {

/// Sets the padding such that the output has ceil(input / stride) positions. If the total padding
/// is odd, the extra element is at the end, or at the beginning if `lower`.
void pad_to_same(Window& window, bool lower) {
  window.output = ceil_div(window.input, window.stride);
  const int64_t needed = (window.output - 1) * window.stride + window.reach() - window.input;
  const int64_t total = std::max<int64_t>(needed, 0);
  window.before = lower ? total - total / 2 : total / 2;
  window.after = total - window.before;
}

Status measure(const Node& node, Window& window, bool ceil_mode) {
  const int64_t padded = window.input + window.before + window.after;
  if (window.reach() > padded)
    return node.invalid(
        fmt::format("a kernel that reaches over {} on {} elements", window.reach(), padded));
  const int64_t rest = padded - window.reach();
  window.output = (ceil_mode ? ceil_div(rest, window.stride) : rest / window.stride) + 1;
  // With ceil_mode, the last window must begin inside of the input or of the padding before it.
  if (ceil_mode && (window.output - 1) * window.stride >= window.input + window.before)
    --window.output;
  const int64_t end = (window.output - 1) * window.stride + window.reach() - window.before;
  if (ceil_mode) window.after = std::max<int64_t>(end - window.input, 0);
  return {};
}

}  // namespace

Result<std::vector<Window>> windows_of(const Node& node, const Shape& input, const Shape& kernel) {
  const size_t rank = input.size();
  if (kernel.size() != rank || rank == 0) return node.invalid("the kernel has another rank");
  TW_TRY(const std::vector<int64_t> strides, per_dimension(node, "strides", rank, 1, 1));
  TW_TRY(const std::vector<int64_t> dilations, per_dimension(node, "dilations", rank, 1, 1));
  TW_TRY(const std::vector<int64_t> pads, per_dimension(node, "pads", 2 * rank, 0, 0));
  TW_TRY(const std::string auto_pad, node.text("auto_pad", "NOTSET"));
  TW_TRY(const int64_t ceil_mode, node.integer("ceil_mode", 0));
  const bool lower = auto_pad == "SAME_LOWER", is_explicit = auto_pad == "NOTSET";
  if (!lower && !is_explicit && auto_pad != "SAME_UPPER" && auto_pad != "VALID")
    return node.invalid(fmt::format("auto_pad='{}'", auto_pad));
  std::vector<Window> windows;
  for (size_t i = 0; i < rank; ++i) {
    if (kernel[i] < 1 || kernel[i] > largest_window || input[i] < 1 || input[i] > largest_window)
      return node.invalid(fmt::format("a kernel of {} on {} elements", kernel[i], input[i]));
    Window window = {input[i], kernel[i], strides[i], dilations[i], 0, 0, 0};
    if (is_explicit) {
      window.before = pads[i];
      window.after = pads[rank + i];
    }
    if (is_explicit || auto_pad == "VALID") {
      TW_RETURN_IF_ERROR(measure(node, window, ceil_mode != 0));
    } else {
      pad_to_same(window, lower);
    }
    windows.push_back(window);
  }
  return windows;
}

Shape outputs_of(const std::vector<Window>& windows) {
  Shape extents;
  for (const Window& window : windows) extents.push_back(window.output);
  return extents;
}

Expr is_inside(const std::vector<Window>& windows, const std::vector<Axis>& positions,
               const std::vector<Axis>& taps) {
  std::vector<Expr> conditions;
  for (size_t i = 0; i < windows.size(); ++i)
    windows[i].guard(windows[i].position(positions[i], taps[i]), conditions);
  return all_of(conditions);
}

Expr windowed_read(const Tensor& in, std::vector<Expr> prefix, const std::vector<Window>& windows,
                   const std::vector<Axis>& positions, const std::vector<Axis>& taps,
                   const Expr& otherwise) {
  for (size_t i = 0; i < windows.size(); ++i)
    prefix.push_back(windows[i].position(positions[i], taps[i]));
  return select(is_inside(windows, positions, taps), in.read_at(std::move(prefix)), otherwise);
}

}  // namespace tw::graph::onnx
