// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes with many stages, in which each stage reads its predecessor several times. If they were
// written as a single expression, it would grow exponentially with the number of stages.

#include <fmt/format.h>

#include <string>

namespace tw::schedules {

/// Returns iterations of z = z^2 + c. Each has two stages, the real and the imaginary part of z.
inline std::string mandelbrot(int iterations, int rows = 8, int columns = 40) {
  const std::string axes = fmt::format("f32[y={}, x={}]", rows, columns);
  std::string text = fmt::format("input cr: f32[{0}, {1}]; input ci: f32[{0}, {1}]", rows, columns);
  std::string re = "cr", im = "ci";
  for (int i = 1; i <= iterations; ++i) {
    text += fmt::format("; re{0}: {1} = {2}[y, x] * {2}[y, x] - {3}[y, x] * {3}[y, x] + cr[y, x]",
                        i, axes, re, im);
    text += fmt::format("; im{0}: {1} = 2.0 * {2}[y, x] * {3}[y, x] + ci[y, x]", i, axes, re, im);
    re = fmt::format("re{}", i);
    im = fmt::format("im{}", i);
  }
  return text + fmt::format("; out: {} = {}[y, x] + {}[y, x]", axes, re, im);
}

/// Returns a chain of blurs along rows. Each stage reads three elements of its predecessor.
inline std::string blurs(int stages, int rows = 8, int columns = 40) {
  std::string text = fmt::format("input a: f32[{}, {}]", rows, columns), before = "a";
  for (int i = 1; i <= stages; ++i) {
    const std::string name = fmt::format("s{}", i);
    text += fmt::format(
        "; {0}: f32[y={1}, x={2}] = {3}[y, clamp(x - 1, 0, {4})] + {3}[y, x] * 2.0 + "
        "{3}[y, clamp(x + 1, 0, {4})]",
        name, rows, columns, before, columns - 1);
    before = name;
  }
  return text;
}

/// Returns a chain of matrix products. Each stage multiplies the result of its predecessor by w.
inline std::string products(int stages, int extent = 12) {
  std::string text = fmt::format("input a: f32[{0}, {0}]; weight w: f32[{0}, {0}]", extent),
              before = "a";
  for (int i = 1; i <= stages; ++i) {
    const std::string name = fmt::format("s{}", i);
    text += fmt::format("; {0}: f32[y={1}, x={1}] = sum(k={1}) {2}[y, k] * w[k, x]", name, extent,
                        before);
    before = name;
  }
  return text;
}

}  // namespace tw::schedules
