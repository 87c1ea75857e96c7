// SPDX-License-Identifier: Apache-2.0
#include "bench/planning.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/graph/schemes.h"

namespace tw::bench {
namespace {

/// Returns a clock that advances by 1 ms whenever it is read.
tuner::Clock ticking(int64_t& now_ns) {
  return [&now_ns] { return now_ns += 1'000'000; };
}

TEST(Planning, SaysWhatPlansTookAndProved) {
  graph::Graph graph;
  const std::vector<int64_t> shape = {1, 4, 4, 4};
  graph.inputs = {{"x", {Float32, shape}}};
  graph.operators = {{graph::sum_workload(shape, 1, 1), {"x"}, {"y"}}};
  graph.outputs = {"y"};
  const std::vector<std::vector<graph::Scheme>> schemes = {
      {graph::scheme("NCHW", "NCHW", 5), graph::scheme("NHWC", "NHWC", 3)}};
  int64_t now_ns = 0;
  const auto planning = measure_planning(graph, schemes, graph::every_copy(4), 3, ticking(now_ns));
  ASSERT_TRUE(planning) << planning.error().message;
  EXPECT_EQ(planning->operators, 1u);
  EXPECT_EQ(planning->schemes, 2u);
  EXPECT_TRUE(planning->is_optimal);
  EXPECT_EQ(planning->gap, 0);
  const nlohmann::json row = planning_json({*planning}, {}).at("rows").at(0);
  EXPECT_DOUBLE_EQ(row.at("plan_ms"), 1);
  EXPECT_NE(planning_table({*planning}, {}).find("optimal"), std::string::npos);
}

TEST(Planning, SeriesParallelNetworksAreSolvedExactly) {
  int64_t now_ns = 0;
  const Solving solving = measure_solving(200, 4, 1, 1, ticking(now_ns));
  EXPECT_TRUE(solving.is_optimal);
  EXPECT_GE(solving.factors, 200u);
  EXPECT_DOUBLE_EQ(solving.solve_s, 1e-3);
}

}  // namespace
}  // namespace tw::bench
