// SPDX-License-Identifier: Apache-2.0
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
#include "tests/graph/plans.h"
#include "tests/graph/schemes.h"

namespace tw::graph {
namespace {

using ::testing::HasSubstr;

TEST(Plan, AGraphWithoutOperatorsIsFree) {
  const Plan plan = *planned(image_graph({}, {"x"}), {}, 4);
  EXPECT_EQ(plan.predicted_ns, 0);
  EXPECT_TRUE(plan.is_optimal);
  EXPECT_TRUE(plan.produced.at("x").is_row_major());
}

TEST(Plan, TensorsWithoutDimensions) {
  Graph graph;
  graph.inputs = {{"x", {Float32, {}}}};
  graph.operators = {from_text("input a: f32[]\nb: f32[] = a[] + 1.0", {"x"}, {"y"})};
  graph.outputs = {"y"};
  const Scheme only_one = {{dsl::Layout::row_major(0)}, {dsl::Layout::row_major(0)}, 3};
  EXPECT_EQ(planned(graph, {{only_one}}, 4)->predicted_ns, 3);
}

TEST(Plan, PlansAreDistinctWhereALimitEndsTheSearch) {
  for (const double copy_ns : {0.0, 1e-6, 4.0, 15.0})
    for (size_t nodes = 1; nodes < 100; ++nodes) {
      PlanOptions options;
      options.limits.nodes = nodes;
      const auto plans =
          make_plans(three_readers(), Schemes(3, of_a_reader), every_copy(copy_ns), 27, options);
      ASSERT_TRUE(plans) << plans.error().message;
      std::set<std::vector<size_t>> distinct;
      for (const Plan& plan : *plans) EXPECT_TRUE(distinct.insert(plan.schemes).second);
      EXPECT_TRUE(std::ranges::is_sorted(*plans, {}, &Plan::predicted_ns));
      EXPECT_EQ(plans->front().predicted_ns, 30);
    }
}

TEST(Plan, Fault79_AChainOf10000Operators) {
  const dsl::Workload workload = sum_workload(box, 1, 1);
  Graph graph;
  graph.inputs = {{"t0", {Float32, box}}};
  std::vector<Scheme> each;
  for (const std::string& order : orders)
    each.push_back(scheme(order, order, order == "CBA" ? 1 : 2, "ABC"));
  for (int i = 0; i < 10'000; ++i)
    graph.operators.push_back({workload, {fmt::format("t{}", i)}, {fmt::format("t{}", i + 1)}});
  graph.outputs = {"t10000"};
  const Plan plan = *planned(graph, Schemes(10'000, each), 5);
  EXPECT_TRUE(plan.is_optimal);
  EXPECT_EQ(plan.predicted_ns, 10'010);  // a copy of the input and one for the output
}

TEST(Plan, Fault79_AllTensorsReadTwice) {
  const dsl::Workload first = sum_workload(box, 1, 1), workload = sum_workload(box, 2, 1);
  Graph graph;
  graph.inputs = {{"t0", {Float32, box}}};
  graph.operators = {{first, {"t0"}, {"t1"}}};
  Schemes schemes(1);
  for (const std::string& order : orders) schemes[0].push_back(scheme(order, order, 2, "ABC"));
  for (int i = 2; i <= 1'000; ++i) {
    graph.operators.push_back({workload,
                               {fmt::format("t{}", i - 2), fmt::format("t{}", i - 1)},
                               {fmt::format("t{}", i)}});
    std::vector<Scheme>& each = schemes.emplace_back();
    for (const std::string& order : orders)
      each.push_back(scheme(order + " " + order, order, order == "CBA" ? 1 : 2, "ABC"));
  }
  graph.outputs = {"t1000"};
  const Plan plan = *planned(graph, schemes, 5);
  EXPECT_TRUE(plan.is_optimal);
  EXPECT_EQ(plan.predicted_ns, 2 + 999 + 10);
}

/// A chain of levels x -> a, x -> b, add(a, b) -> the next x. There are three layouts, and schemes
/// for all pairs of layouts of input and output.
struct Diamonds {
  Graph graph;
  Schemes schemes;
  std::vector<dsl::Layout> layouts = graph::layouts("ABC BCA CAB", "ABC");
  double copies[3][3] = {};

  Diamonds(int levels, uint64_t seed) {
    Random random(seed);
    for (auto& row : copies)
      for (double& cost : row) cost = 10 * random.unit();
    const dsl::Workload one = sum_workload(box, 1, 1), two = sum_workload(box, 2, 1);
    graph.inputs = {{"x0", {Float32, box}}};
    for (int i = 0; i < levels; ++i) {
      const std::string x = fmt::format("x{}", i), a = fmt::format("a{}", i),
                        b = fmt::format("b{}", i);
      graph.operators.push_back({one, {x}, {a}});
      graph.operators.push_back({one, {x}, {b}});
      graph.operators.push_back({two, {a, b}, {fmt::format("x{}", i + 1)}});
      for (const size_t inputs : {1, 1, 2}) {
        std::vector<Scheme>& each = schemes.emplace_back();
        for (const dsl::Layout& in : layouts)
          for (const dsl::Layout& out : layouts)
            each.push_back({std::vector(inputs, in), {out}, 10 * random.unit()});
      }
    }
    graph.outputs = {fmt::format("x{}", levels)};
  }

  double copy(size_t from, size_t to) const { return from == to ? 0 : copies[from][to]; }
  /// Returns the cost of scheme s of an operator, which reads layout s / 3 and writes layout s % 3.
  double kernel(size_t op, size_t s) const { return schemes[op][s].cost_ns; }

  /// Returns the least costs of all operators up to each layout of the next x. `before` has those
  /// up to each layout of this level's x.
  std::vector<double> next(size_t level, const std::vector<double>& before) const {
    std::vector<double> after(3, infinite);
    for (size_t x = 0; x < 3; ++x)
      for (size_t a = 0; a < 9; ++a)
        for (size_t b = 0; b < 9; ++b)
          for (size_t add = 0; add < 9; ++add) {
            double cost = before[x] + kernel(3 * level, a) + kernel(3 * level + 1, b) +
                          kernel(3 * level + 2, add) + copy(a % 3, add / 3) + copy(b % 3, add / 3);
            cost += copy(x, a / 3) + (a / 3 == b / 3 ? 0 : copy(x, b / 3));
            after[add % 3] = std::min(after[add % 3], cost);
          }
    return after;
  }
  double least() const {
    std::vector<double> costs = {0, infinite, infinite};
    for (size_t level = 0; level < schemes.size() / 3; ++level) costs = next(level, costs);
    for (size_t x = 0; x < 3; ++x) costs[x] += copy(x, 0);
    return std::ranges::min(costs);
  }
  TransformCost transform_cost() const {
    return [this](const TensorType&, const dsl::Layout& from, const dsl::Layout& to) {
      return copy(static_cast<size_t>(std::ranges::find(layouts, from) - layouts.begin()),
                  static_cast<size_t>(std::ranges::find(layouts, to) - layouts.begin()));
    };
  }
};

TEST(Plan, Fault79_DiamondsOf30Levels) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Diamonds diamonds(30, seed);
    const auto plans = make_plans(diamonds.graph, diamonds.schemes, diamonds.transform_cost(), 3);
    ASSERT_TRUE(plans) << plans.error().message;
    EXPECT_TRUE(plans->front().is_optimal);
    EXPECT_NEAR(plans->front().predicted_ns, diamonds.least(), 1e-9);
    EXPECT_EQ(plans->size(), 3u);
  }
}

// A tensor is read by all layers after it. These layers share the variables that say in which
// layouts it is read.
TEST(Plan, Fault79_ADenseBlockOf60LayersIsSolvedInSmallTables) {
  const DenseBlock block(60, 1);
  PlanOptions options;
  options.limits.table_elements = 3 * 9 * 8 * 8;
  options.limits.total_elements = 1'000'000;
  const auto plans = make_plans(block.graph, block.schemes, every_copy(3), 3, options);
  ASSERT_TRUE(plans) << plans.error().message;
  EXPECT_EQ(plans->size(), 3u);
  EXPECT_TRUE(plans->front().is_optimal);
  EXPECT_TRUE(*cheapest_with(block.graph, block.schemes, every_copy(3), options));
}

// ---- errors ---------------------------------------------------------------------------------

std::string message_of(const Result<Plan>& plan) {
  return plan ? "no error" : plan.error().message;
}

TEST(Plan, ErrorsNameTheOperator) {
  const Graph graph = image_graph({on_images({"x"}, {"a"}), on_images({"a"}, {"b"})}, {"b"});
  const std::vector<Scheme> good = {scheme("NCHW", "NCHW", 1)};
  const auto message = [&](std::vector<Scheme> of_b) {
    return message_of(planned(graph, {good, std::move(of_b)}, 1));
  };
  EXPECT_THAT(message({}), HasSubstr("there is no scheme to run operator 'b'"));
  EXPECT_THAT(message({good[0], scheme("NCHW NCHW", "NCHW", 1)}),
              HasSubstr("scheme 1 of operator 'b' has 2 + 1 layouts; expected one for each of 1"));
  EXPECT_THAT(message({scheme("ABC", "ABC", 1, "ABC")}),
              HasSubstr("scheme 0 of operator 'b' has a layout of 3 dimensions for tensor 'a', "
                        "whose type is f32[1, 8, 4, 4]"));
  for (const double cost : {-1.0, infinite, std::nan("")})
    EXPECT_THAT(message({scheme("NCHW", "NCHW", cost)}),
                HasSubstr("scheme 0 of operator 'b' takes"));
  EXPECT_THAT(message({scheme("NCHW", "NHWC", 1)}), HasSubstr("no error"));
}

TEST(Plan, CopiesThatAreImpossibleNameTheOperator) {
  const Graph graph = image_graph(
      {on_images({"x"}, {"a"}), on_images({"a"}, {"b"}), on_images({"b"}, {"c"})}, {"c"});
  const Schemes schemes = {{scheme("NCHW", "NHWC", 1)},
                           {scheme("NCHW", "NCHW", 1), scheme("NCHW4c", "NCHW", 1)},
                           {scheme("NCHW", "NCHW", 1)}};
  EXPECT_THAT(message_of(planned(graph, schemes, infinite)),
              HasSubstr("no scheme of operator 'b' goes with"));
  EXPECT_THAT(message_of(planned(graph, schemes, infinite, Choice::LocalBest)),
              HasSubstr("tensor 'a' in ACDB and in ABCD"));
  EXPECT_THAT(message_of(planned(graph, schemes, -1)),
              HasSubstr("copying tensor 'a' from ACDB to ABCD takes -1 ns"));
  const auto times = cheapest_with(graph, schemes, every_copy(infinite));
  ASSERT_FALSE(times);
  EXPECT_THAT(times.error().message, HasSubstr("operator 'b'"));
}

TEST(Plan, ChoicesWithoutASchemeNameTheOperator) {
  const Graph graph = image_graph({on_images({"x"}, {"a"}), on_images({"a"}, {"b"})}, {"b"});
  const Schemes schemes = {{scheme("NCHW", "NCHW", 1)}, {scheme("NHWC", "NCHW2c", 1)}};
  EXPECT_THAT(message_of(planned(graph, schemes, 1, Choice::RowMajor)),
              HasSubstr("operator 'b' has no scheme whose arrays are all row-major"));
  EXPECT_THAT(message_of(planned(graph, schemes, 1, Choice::Uniform)),
              HasSubstr("operator 'b' has no scheme whose arrays are all row-major or in blocks "
                        "of 2"));
}

TEST(Plan, MoreLayoutsThanATensorMayHaveAreUnsupported) {
  const std::vector<int64_t> shape = {2, 3, 4, 5, 6};
  Graph graph;
  graph.inputs = {{"x", {Float32, shape}}};
  graph.operators = {{sum_workload(shape, 1, 1), {"x"}, {"y"}}};
  graph.outputs = {"y"};
  Schemes schemes(1);
  for (const std::string& order : permutations("ABCDE", 65))
    schemes[0].push_back(scheme(order, "ABCDE", 1, "ABCDE"));
  const auto plan = planned(graph, schemes, 1);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(plan.error().message, HasSubstr("more than 64 layouts of tensor 'x'"));
  schemes[0].pop_back();
  EXPECT_TRUE(planned(graph, schemes, 1));
}

TEST(Plan, ALimitStatesTheGap) {
  const Diamonds diamonds(30, 9);
  PlanOptions options;
  options.limits.table_elements = 4;
  options.limits.nodes = 50;
  const auto plans =
      make_plans(diamonds.graph, diamonds.schemes, diamonds.transform_cost(), 50, options);
  ASSERT_TRUE(plans) << plans.error().message;
  EXPECT_GT(plans->size(), 1u);
  std::set<std::vector<size_t>> distinct;
  for (const Plan& plan : *plans) {
    EXPECT_FALSE(plan.is_optimal);
    EXPECT_LE(plan.lower_bound_ns, diamonds.least() + 1e-9);
    EXPECT_GE(plan.predicted_ns, diamonds.least() - 1e-9);
    EXPECT_TRUE(distinct.insert(plan.schemes).second);
  }
  EXPECT_TRUE(std::ranges::is_sorted(*plans, {}, &Plan::predicted_ns));
  const auto times =
      cheapest_with(diamonds.graph, diamonds.schemes, diamonds.transform_cost(), options);
  ASSERT_TRUE(times);
  EXPECT_FALSE(times->has_value());
}

}  // namespace
}  // namespace tw::graph
