// SPDX-License-Identifier: Apache-2.0
#pragma once
// Graphs and costs that tests of plans share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/random.h"
#include "graph/plan.h"
#include "graph/plan_text.h"
#include "tests/graph/graphs.h"
#include "tests/graph/schemes.h"

namespace tw::graph {

using Schemes = std::vector<std::vector<Scheme>>;

inline constexpr double infinite = std::numeric_limits<double>::infinity();

inline constexpr int64_t channels = 8;

inline const std::vector<int64_t> image = {1, channels, 4, 4};

/// Returns an operator on images.
inline Operator on_images(std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return {sum_workload(image, inputs.size(), outputs.size()), std::move(inputs),
          std::move(outputs)};
}

inline Graph image_graph(std::vector<Operator> operators, std::vector<std::string> outputs) {
  Graph graph;
  graph.inputs = {{"x", {Float32, image}}};
  graph.operators = std::move(operators);
  graph.outputs = std::move(outputs);
  return graph;
}

inline Result<Plan> planned(const Graph& graph, const Schemes& schemes, double copy_ns,
                            Choice choice = Choice::Global, const PlanOptions& options = {}) {
  return choose(graph, schemes, every_copy(copy_ns), choice, options);
}

/// Returns a graph in which x has three readers. Each may ask for any layout.
inline Graph three_readers() {
  return image_graph({on_images({"x"}, {"a"}), on_images({"x"}, {"b"}), on_images({"x"}, {"c"})},
                     {"a", "b", "c"});
}

inline const std::vector<Scheme> of_a_reader = {
    scheme("NCHW", "NCHW", 10), scheme("NHWC", "NCHW", 20), scheme("NCHW4c", "NCHW", 40)};

inline const std::vector<std::string> orders = {"ABC", "ACB", "BAC", "BCA", "CAB", "CBA"};

inline const std::vector<int64_t> box = {2, 3, 4};

/// Returns the first `count` orders of `letters`, which stand for dimensions.
inline std::vector<std::string> permutations(std::string letters, size_t count) {
  std::vector<std::string> all;
  do all.push_back(letters);
  while (all.size() < count && std::ranges::next_permutation(letters).found);
  return all;
}

/// A dense block in three layouts. Each layer reads the sum of the block's input and of the outputs
/// of all layers before it, and adds its output to these tensors.
struct DenseBlock {
  Graph graph;
  Schemes schemes;

  DenseBlock(int layers, uint64_t seed) {
    Random random(seed);
    graph.inputs = {{"t0", {Float32, box}}};
    std::vector<std::string> tensors = {"t0"};
    const auto add = [&](std::vector<std::string> inputs, const std::string& output, bool mixes) {
      graph.operators.push_back({sum_workload(box, inputs.size(), 1), inputs, {output}});
      std::vector<Scheme>& each = schemes.emplace_back();
      for (const dsl::Layout& in : orders_of_block)
        for (const dsl::Layout& out : orders_of_block)
          if (mixes || in == out)
            each.push_back({std::vector(inputs.size(), in), {out}, 10 * random.unit()});
    };
    for (int layer = 1; layer <= layers; ++layer) {
      add(tensors, fmt::format("sum{}", layer), false);
      tensors.push_back(fmt::format("t{}", layer));
      add({fmt::format("sum{}", layer)}, tensors.back(), true);
    }
    add(tensors, "out", false);
    graph.outputs = {"out"};
  }
  const std::vector<dsl::Layout> orders_of_block = graph::layouts("ABC BCA CAB", "ABC");
};

}  // namespace tw::graph
