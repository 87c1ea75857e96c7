// SPDX-License-Identifier: Apache-2.0
#include "graph/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/graphs.h"
#include "tests/graph/schemes.h"

namespace tw::graph {
namespace {

using ::testing::HasSubstr;

std::vector<std::vector<Scheme>> schemes_of_block() {
  std::vector<std::vector<Scheme>> schemes = {
      {scheme("NCHW NCHW", "NCHW", 90'000), scheme("NCHW4c NCHW", "NCHW4c", 30'000)},
      {scheme("NCHW NCHW", "NCHW", 12'000), scheme("NCHW4c NCHW4c", "NCHW", 11'000)}};
  schemes[0][1].is_measured = true;
  return schemes;
}

/// Returns `count` labels of kernels that use the direct algorithm and were never run.
std::vector<KernelLabel> unverified(size_t count) {
  return std::vector<KernelLabel>(count, KernelLabel{"direct", {}});
}

TEST(PlanText, ListsWhatRunsInOrder) {
  const Graph graph = residual_block();
  const auto schemes = schemes_of_block();
  const Plan plan = make_plans(graph, schemes, every_copy(1'000), 1)->front();
  EXPECT_EQ(
      to_text(graph, schemes, plan, {{"winograd 2 x 2", 1.24e-6}, {"direct", {}}}),
      R"(operator     layouts                    time   share             algorithm         error  workload
transform x  NCHW -> NCHW4c           1.0 µs   2.4 %
c            NCHW4c -> NCHW4c        30.0 µs  71.4 %  measured   winograd 2 x 2  1.2e-06  conv2d n=1 c=4 h=6 w=6 k=4 r=3 s=3 stride=1 pad=1 dilation=1 gro...
y            NCHW4c, NCHW4c -> NCHW  11.0 µs  26.2 %  predicted  direct                   add_relu n=1 c=4 h=6 w=6 f32 fast

total    42.0 µs: 41.0 µs in 2 kernels, 1.0 µs in 1 transform; 1 of 2 kernels measured
optimal  no other choice among these schemes is faster
)");
}

TEST(PlanText, SaysWhatIsNotProved) {
  const Graph graph = residual_block();
  const auto schemes = schemes_of_block();
  const Plan plan = *choose(graph, schemes, every_copy(1'000), Choice::RowMajor);
  const std::string text = to_text(graph, schemes, plan, unverified(2));
  EXPECT_THAT(text, HasSubstr("total    102.0 µs: 102.0 µs in 2 kernels, no transforms; "
                              "0 of 2 kernels measured\n"));
  EXPECT_THAT(text, HasSubstr("bound    no choice among these schemes takes less than 41.0 µs\n"));
}

TEST(PlanText, DrawsCopiesOfCopies) {
  const Graph graph = residual_block();
  const auto schemes = schemes_of_block();
  Plan plan = *choose(graph, schemes, every_copy(1'000), Choice::Blocked);
  const dsl::Layout row_major = dsl::Layout::row_major(4), blocked = plan.produced.at("c");
  ASSERT_FALSE(blocked == row_major);
  plan.schemes[1] = 1;  // reads c in blocks, as a convolution would
  plan.transforms.push_back({"c", row_major, blocked, 1'000});
  const std::string dot = to_dot(graph, schemes, plan);
  // The edges are c -> its row-major copy -> the blocked copy of that -> y.
  EXPECT_THAT(dot, testing::ContainsRegex("n([0-9]+) -> n[0-9]+ .label=.NCHW4c.*"
                                          "n[0-9]+ -> n[0-9]+ .label=.NCHW.*"));
}

TEST(PlanText, OfAGraphWithoutOperators) {
  Graph graph;
  graph.inputs = {{"x", {Float32, {}}}};
  graph.outputs = {"x"};
  const Plan plan = make_plans(graph, {}, every_copy(1), 1)->front();
  EXPECT_THAT(to_text(graph, {}, plan, {}),
              HasSubstr("total    no kernels, no transforms; 0 of 0 kernels"));
}

TEST(PlanText, SingleNumbersHaveNoLayout) {
  Graph graph;
  graph.inputs = {{"x", {Float32, {2}}}};
  graph.operators = {from_text("input a: f32[2]\nb: f32[] = sum(i=2) a[i]", {"x"}, {"y"})};
  graph.outputs = {"y"};
  const std::vector<std::vector<Scheme>> schemes = {
      {{{dsl::Layout::row_major(1)}, {dsl::Layout::row_major(0)}, 2e6}}};
  const Plan plan = make_plans(graph, schemes, every_copy(1), 1)->front();
  EXPECT_THAT(to_text(graph, schemes, plan, unverified(1)), HasSubstr("-> scalar"));
  EXPECT_THAT(to_text(graph, schemes, plan, unverified(1)),
              HasSubstr("2.00 ms  100.0 %  predicted"));
  EXPECT_THAT(to_dot(graph, schemes, plan), HasSubstr("n1 -> n2 [label=\"scalar\"];"));
}

TEST(PlanText, DrawsTransformsAsNodes) {
  const Graph graph = residual_block();
  const auto schemes = schemes_of_block();
  const Plan plan = make_plans(graph, schemes, every_copy(1'000), 1)->front();
  EXPECT_EQ(to_dot(graph, schemes, plan),
            R"(digraph plan {
  n0 [label="x" shape=ellipse];
  n1 [label="transform\n1.0 µs" shape=hexagon];
  n0 -> n1 [label="NCHW"];
  n2 [label="c\nconv2d\n30.0 µs" shape=box];
  n1 -> n2 [label="NCHW4c"];
  n3 [label="y\nadd_relu\n11.0 µs" shape=box];
  n2 -> n3 [label="NCHW4c"];
  n1 -> n3 [label="NCHW4c"];
  n4 [label="output y" shape=ellipse];
  n3 -> n4 [label="NCHW"];
}
)");
}

TEST(PlanText, QuotesNames) {
  Graph graph;
  graph.inputs = {{"a\"b\\c", {Float32, {2}}}};
  graph.outputs = {"a\"b\\c"};
  const Plan plan = make_plans(graph, {}, every_copy(1), 1)->front();
  EXPECT_THAT(to_dot(graph, {}, plan), HasSubstr(R"(n0 [label="a\"b\\c" shape=ellipse];)"));
}

}  // namespace
}  // namespace tw::graph
