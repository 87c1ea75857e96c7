// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/network_error.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/tuner/networks.h"

namespace tw::tuner {
namespace {

TEST(NetworkError, IsSharedByTheOperatorsThatHaveOtherAlgorithms) {
  const Target target = parse_target("x86-64-v3").value();
  graph::Graph graph = two_convolutions();
  EXPECT_DOUBLE_EQ(most_error_of_kernels(graph, target), error_of_network / std::sqrt(2.0));
  // The number of operators is rounded up to a power of two, so three count as four.
  graph.constants["w3"] = graph.constants["w1"];
  graph.operators.push_back(graph::named(small_conv, {"y", "w3"}, "z"));
  EXPECT_DOUBLE_EQ(most_error_of_kernels(graph, target), error_of_network / 2);
}

TEST(NetworkError, OfTheDirectAlgorithmIsNotBounded) {
  const Target target = parse_target("x86-64-v3").value();
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {1, 32, 8, 8}}}};
  graph.operators = {graph::named("add_relu n=1 c=32 h=8 w=8 f32 fast", {"x", "x"}, "y")};
  graph.outputs = {"y"};
  EXPECT_TRUE(std::isinf(most_error_of_kernels(graph, target)));
  EXPECT_TRUE(
      std::isinf(most_error_of_kernels(two_convolutions(), parse_target("cuda:sm_90a").value())));
}

TEST(NetworkError, ConcernsOtherAlgorithmsAndOutputsThatKeepTheirDigits) {
  const dsl::Workload conv = dsl::parse_workload(small_conv).value();
  const dsl::Workload narrow =
      dsl::parse_workload("conv2d n=1 c=32 h=8 w=8 k=32 r=3 s=3 pad=1 f16 fast").value();
  db::Record record;
  record.verified_error = 1e-5;
  record.schedule = "tw1\nsplit out k 4\n";
  EXPECT_TRUE(is_exact_enough(conv, record, 1e-6));
  record.schedule = "tw1\nwinograd conv x 4\n";
  EXPECT_FALSE(is_exact_enough(conv, record, 1e-6));
  EXPECT_TRUE(is_exact_enough(conv, record, 1e-5));
  EXPECT_TRUE(is_exact_enough(narrow, record, 1e-6));
}

}  // namespace
}  // namespace tw::tuner
