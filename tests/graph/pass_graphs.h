// SPDX-License-Identifier: Apache-2.0
#pragma once
// Graphs for the tests of passes, built from lines of text.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/passes.h"
#include "tests/graph/random_graph.h"

namespace tw::graph {

/// Returns the graph of a text. The lines of the constants are added to the text here.
inline Graph graph_from(const std::string& text,
                        const std::map<std::string, Constant>& constants = {}) {
  std::string all;
  for (const auto& [name, constant] : constants)
    all += fmt::format("const {}: {} #{}\n", name, constant.type().to_string(), constant.hash);
  auto graph = parse_graph(all + text, constants);
  EXPECT_TRUE(graph) << graph.error().message;
  return *graph;
}

inline Constant normal_constant(std::vector<int64_t> shape, uint64_t seed = 7) {
  return make_constant(normal_array(std::move(shape), seed));
}

/// Returns the operators of a graph as text, one per line.
inline std::string operators_of(const Graph& graph) {
  std::string lines;
  const std::string text = to_text(graph);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.find(" = ") != std::string::npos) lines += line + "\n";
  }
  return lines;
}

inline const Pass& pass_of(const std::string& name) {
  const auto found =
      std::ranges::find_if(passes(), [&](const Pass& pass) { return pass.name == name; });
  EXPECT_NE(found, passes().end()) << name;
  return *found;
}

/// Applies one pass, and checks that the outputs for random inputs stay the same.
inline Graph applied(const std::string& name, const Graph& graph) {
  PassOptions options{.verify = true};
  for (const Pass& pass : passes())
    if (pass.name != name) options.disabled.insert(std::string(pass.name));
  pass_of(name);
  auto passed = apply_passes(graph, options);
  EXPECT_TRUE(passed) << passed.error().message;
  return passed ? passed->graph : Graph{};
}

inline std::string after(const std::string& name, const Graph& graph) {
  return operators_of(applied(name, graph));
}

/// Returns the line of an operator with one input. `body` is its expression over in0[a, b, ...].
inline std::string unary_line(const std::string& out, const std::string& in,
                              const std::string& shape, const std::string& axes,
                              const std::string& body) {
  return fmt::format("{} = expr({}) fast input in0: f32[{}]; out: f32[{}] = {}\n", out, in, shape,
                     axes, body);
}

/// Returns the line of a relu of 8 numbers.
inline std::string relu8(const std::string& out, const std::string& in) {
  return unary_line(out, in, "8", "a=8", "max(in0[a], 0.0)");
}

inline std::string tanh8(const std::string& out, const std::string& in) {
  return unary_line(out, in, "8", "a=8", "tanh(in0[a])");
}

inline std::string add8(const std::string& out, const std::string& x, const std::string& y) {
  return fmt::format(
      "{} = expr({}, {}) fast input in0: f32[8]; input in1: f32[8]; out: f32[a=8] = in0[a] + "
      "in1[a]\n",
      out, x, y);
}

inline const std::string image_shape = "1, 4, 6, 6", image_axes = "a=1, b=4, c=6, d=6";

inline const std::string conv_attributes =
    "n=1 c=4 h=6 w=6 k=4 r=3 s=3 stride=1 pad=1 dilation=1 groups=1";

inline std::string conv_line(const std::string& out, const std::string& in,
                             const std::string& w = "w") {
  return fmt::format("{} = conv2d({}, {}) {} f32 fast\n", out, in, w, conv_attributes);
}

inline std::string on_image(const std::string& out, const std::string& in,
                            const std::string& body) {
  return unary_line(out, in, image_shape, image_axes, body);
}

inline std::string relu_line(const std::string& out, const std::string& in) {
  return on_image(out, in, "max(in0[a, b, c, d], 0.0)");
}

inline std::string add_line(const std::string& out, const std::string& x, const std::string& y) {
  return fmt::format(
      "{} = expr({}, {}) fast input in0: f32[{}]; input in1: f32[{}]; out: f32[{}] = in0[a, b, c, "
      "d] + in1[a, b, c, d]\n",
      out, x, y, image_shape, image_shape, image_axes);
}

/// Like on_image(), with two more inputs: constants g and m, which have an element for each
/// channel.
inline std::string by_channel(const std::string& out, const std::string& in,
                              const std::string& body) {
  return fmt::format(
      "{} = expr({}, g, m) fast input in0: f32[{}]; weight in1: f32[4]; weight in2: f32[4]; out: "
      "f32[{}] = {}\n",
      out, in, image_shape, image_axes, body);
}

inline const std::string input_image = fmt::format("input x: f32[{}]\n", image_shape);

inline std::map<std::string, Constant> conv_weights() {
  return {{"w", normal_constant({4, 4, 3, 3}, 1)}, {"v", normal_constant({4, 4, 3, 3}, 2)}};
}

inline std::map<std::string, Constant> scale_weights() {
  auto weights = conv_weights();
  weights["g"] = normal_constant({4}, 3);
  weights["m"] = normal_constant({4}, 4);
  return weights;
}

inline std::string transpose_line(const std::string& out, const std::string& in, int64_t rows,
                                  int64_t cols) {
  return unary_line(out, in, fmt::format("{}, {}", rows, cols),
                    fmt::format("a={}, b={}", cols, rows), "in0[b, a]");
}

inline std::string reshape_line(const std::string& out, const std::string& in,
                                const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                                DType type = Float32) {
  const auto op = make_operator(reshape(type, from, to).value(), {in}, {out}, {});
  Graph graph;
  graph.operators = {op.value()};
  return operators_of(graph);
}

inline const std::string dense_attributes = "m=6 n=8 k=4 f32 fast";

/// Applies round_factors to a graph with the precision bf16. `multiplies` says whether the target
/// has instructions that multiply bf16. Checks that outputs stay the same up to rounding.
inline Graph rounded(const Graph& graph, bool multiplies) {
  PassOptions options{.verify = true, .precision = BFloat16};
  if (multiplies) options.multiplied = {BFloat16};
  for (const Pass& pass : passes())
    if (pass.name != "round_factors") options.disabled.insert(std::string(pass.name));
  auto passed = apply_passes(graph, options);
  EXPECT_TRUE(passed) << passed.error().message;
  return passed ? passed->graph : Graph{};
}

inline const std::string dequantized_image =
    "a = expr(q, z, s) fast input in0: u8[1, 4, 6, 6]; weight in1: u8[]; weight in2: f32[]; out: "
    "f32[a=1, b=4, c=6, d=6] = f32(i32(in0[a, b, c, d]) - i32(in1[])) * in2[]\n";

inline const std::string dequantized_weights =
    "w = expr(wq, ws) fast weight in0: i8[4, 4, 3, 3]; weight in1: f32[4]; out: f32[a=4, b=4, c=3, "
    "d=3] = f32(i32(in0[a, b, c, d])) * in1[a]\n";

inline const std::string uncentered_line =
    "t = expr(q) fast input in0: u8[6, 8]; out: i16[a=6, b=8] = i16(i32(in0[a, b]))\n";

/// The line of the product y[a, b] = sum(t[a, k] * w[k, b]) over 8 terms.
inline const std::string product_of_centered =
    "y = expr(t, w) fast input in0: i16[6, 8]; weight in1: i8[8, 4]; out: i32[a=6, b=4] = sum(k=8) "
    "i32(in0[a, k]) * i32(in1[k, b])\n";

inline Graph passed(const Graph& graph) {
  const auto result = apply_passes(graph, {.verify = true});
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->graph : Graph{};
}

}  // namespace tw::graph
