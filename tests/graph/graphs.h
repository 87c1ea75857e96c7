// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small graphs and arrays for the tests of graphs.

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

/// An operator by name, bound to tensors. Requires: the attributes are right.
inline Operator named(const std::string& key, std::vector<std::string> inputs,
                      const std::string& output) {
  return {dsl::parse_workload(key).value(), std::move(inputs), {output}};
}

/// An operator from the text of its compute.
inline Operator from_text(const std::string& text, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs, const Graph& graph = {}) {
  return make_operator(dsl::parse_compute(text).value(), inputs, outputs, graph.constants).value();
}

/// conv2d(x, w) -> c, add_relu(c, x) -> y on images of 4 channels.
inline Graph residual_block() {
  Graph graph;
  graph.inputs = {{"x", {Float32, {1, 4, 6, 6}}}};
  graph.constants["w"] = make_constant(normal_array({4, 4, 3, 3}, 1));
  graph.operators = {named("conv2d n=1 c=4 h=6 w=6 k=4 r=3 s=3 pad=1 f32 fast", {"x", "w"}, "c"),
                     named("add_relu n=1 c=4 h=6 w=6 f32 fast", {"c", "x"}, "y")};
  graph.outputs = {"y"};
  return graph;
}

/// Values for the graph's inputs, N(0, 1).
inline dsl::Arrays random_inputs(const Graph& graph, uint64_t seed) {
  dsl::Arrays arrays;
  for (const Port& port : graph.inputs)
    arrays[port.name] = normal_array(port.type.shape, seed++, port.type.dtype);
  return arrays;
}

}  // namespace tw::graph
