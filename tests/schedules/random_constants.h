// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random computes with stages that read only constants and may therefore be prepared. On integer
// inputs the results are exact in any order of evaluation.

#include <fmt/format.h>

#include <string>

#include "base/random.h"
#include "dsl/parse.h"

namespace tw::schedules {

/// Returns a product a[m, c] * u[c, k]. The factor u is computed from weights, mostly in two stages
/// or from two weights. Half of the computes also have a sum over u.
inline dsl::Compute random_constants(Random& random) {
  const int64_t m = 1 + random.below(6), c = 1 + random.below(7), k = 1 + random.below(9);
  std::string text =
      fmt::format("input a: f32[{0}, {1}]\nweight w: f32[{2}, {1}]\nweight s: f32[{2}]\n", m, c, k);
  const std::string axes = fmt::format("c={}, k={}", c, k);
  switch (random.below(4)) {
    case 0:
      text += fmt::format("u: f32[{}] = w[k, c] * w[k, c] + 1.0\n", axes);
      break;
    case 1:
      text += fmt::format("u: f32[{}] = w[k, c] * s[k]\n", axes);
      break;
    case 2:
      text += fmt::format("t: f32[k={}] = sum(c={}) w[k, c]\nu: f32[{}] = w[k, c] - t[k]\n", k, c,
                          axes);
      break;
    default:
      text += fmt::format(
          "t: f32[{0}] = s[k] + w[k, c]\nu: f32[{0}] = select(c < 2, t[c, k], w[k, c])\n", axes);
  }
  const std::string rows = fmt::format("m={}, k={}", m, k);
  text += fmt::format("p: f32[{}] = sum(c={}) a[m, c] * u[c, k]\n", rows, c);
  if (random.chance(0.5)) {
    text += fmt::format("z: f32[k={}] = sum(c={}) u[c, k]\n", k, c);
    text += fmt::format("out: f32[{}] = max(p[m, k] - z[k] * 2.0, 0.0)\n", rows);
  } else {
    text += fmt::format("out: f32[{}] = p[m, k] + s[k]\n", rows);
  }
  auto compute = dsl::parse_compute(text);
  TW_CHECK(compute, "the generator writes valid computes");
  return std::move(*compute);
}

}  // namespace tw::schedules
