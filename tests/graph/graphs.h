// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small graphs and arrays that tests of graphs use.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "dsl/parse.h"
#include "graph/graph.h"
#include "graph/rewrite.h"

namespace tw::graph {

inline dsl::Array normal_array(std::vector<int64_t> shape, uint64_t seed, DType type = Float32) {
  Random random(seed);
  dsl::Array array = dsl::Array::make(type, std::move(shape)).value();
  dsl::fill_normal(array, random);
  return array;
}

/// Returns a named operator that reads and writes these tensors. Requires: the key is valid.
inline Operator named(const std::string& key, std::vector<std::string> inputs,
                      const std::string& output) {
  return {dsl::parse_workload(key).value(), std::move(inputs), {output}};
}

/// Returns an operator with the compute of the text, which reads and writes these tensors.
inline Operator from_text(const std::string& text, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs, const Graph& graph = {}) {
  return make_operator(dsl::parse_compute(text).value(), inputs, outputs, graph.constants).value();
}

/// Returns conv2d(x, w) -> c, add_relu(c, x) -> y on images of 4 channels.
inline Graph residual_block() {
  Graph graph;
  graph.inputs = {{"x", {Float32, {1, 4, 6, 6}}}};
  graph.constants["w"] = make_constant(normal_array({4, 4, 3, 3}, 1));
  graph.operators = {named("conv2d n=1 c=4 h=6 w=6 k=4 r=3 s=3 pad=1 f32 fast", {"x", "w"}, "c"),
                     named("add_relu n=1 c=4 h=6 w=6 f32 fast", {"c", "x"}, "y")};
  graph.outputs = {"y"};
  return graph;
}

/// Returns a graph with a loop. Each trip computes three tensors: h1 = tanh(h w + x u), c1 = c / 2
/// + h1, and y = c1 - x. There x is a slice of xs, and u is v. hs and ys stack the h1 and y of all
/// trips; z is relu(ys).
inline Graph recurrence(int64_t trips, bool is_backward = false) {
  Graph graph;
  graph.inputs = {
      {"xs", {Float32, {trips, 2, 3}}}, {"v", {Float32, {2, 3}}}, {"h0", {Float32, {2, 3}}}};
  graph.constants["w"] = make_constant(normal_array({3, 3}, 1));
  graph.constants["c0"] = make_constant(normal_array({2, 3}, 2));
  const auto of_two = [](const std::string& value) {
    return "input a: f32[2, 3]\ninput b: f32[2, 3]\nout: f32[i=2, j=3] = " + value;
  };
  graph.operators = {named("dense m=2 n=3 k=3 f32 fast", {"h", "w"}, "p"),
                     from_text("input a: f32[2, 3]\ninput b: f32[2, 3]\ninput c: f32[2, 3]\n"
                               "out: f32[i=2, j=3] = tanh(a[i, j] + b[i, j] * c[i, j])",
                               {"p", "x", "u"}, {"h1"}),
                     from_text(of_two("a[i, j] * 0.5 + b[i, j]"), {"c", "h1"}, {"c1"}),
                     from_text(of_two("a[i, j] - b[i, j]"), {"c1", "x"}, {"y"})};
  for (Operator& op : graph.operators) op.loop = 0;
  Loop loop;
  loop.name = "cell";
  loop.trips = trips;
  loop.shares = {{"u", "v"}};
  loop.slices = {{"x", "xs", is_backward}};
  loop.states = {{"h", "h0", "h1", "hn"}, {"c", "c0", "c1", "cn"}};
  loop.stacks = {{"h1", "hs", is_backward}, {"y", "ys", !is_backward}};
  graph.loops = {loop};
  const std::string shape = "[" + std::to_string(trips) + ", 2, 3]";
  graph.operators.push_back(from_text("input a: f32" + shape +
                                          "\nout: f32[t=" + std::to_string(trips) +
                                          ", i=2, j=3] = max(a[t, i, j], 0.0)",
                                      {"ys"}, {"z"}));
  graph.outputs = {"z", "hs", "hn", "cn"};
  return graph;
}

/// Returns random values for the graph's inputs, with the distribution N(0, 1).
inline dsl::Arrays random_inputs(const Graph& graph, uint64_t seed) {
  dsl::Arrays arrays;
  for (const Port& port : graph.inputs)
    arrays[port.name] = normal_array(port.type.shape, seed++, port.type.dtype);
  return arrays;
}

}  // namespace tw::graph
