// SPDX-License-Identifier: Apache-2.0
#include "graph/passes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/graph/pass_graphs.h"
#include "tests/graph/random_graph.h"

namespace tw::graph {
namespace {

using ::testing::HasSubstr;

TEST(DropDead, DropsWhatNoOutputNeeds) {
  const Graph graph = graph_from("input x: f32[8]\n" + relu8("t", "x") + tanh8("u", "t") +
                                     tanh8("v", "u") + relu8("y", "t") + "output y\n",
                                 {{"unread", normal_constant({3})}});
  const Graph dropped = applied("drop_dead", graph);
  EXPECT_EQ(operators_of(dropped), relu8("t", "x") + relu8("y", "t"));
  EXPECT_TRUE(dropped.constants.empty());
  EXPECT_EQ(dropped.inputs, graph.inputs);
}

TEST(FoldConstants, ComputesChainsOfConstants) {
  const Graph graph =
      graph_from("input x: f32[8]\n" + unary_line("u", "k", "2, 4", "a=4, b=2", "in0[b, a]") +
                     unary_line("r", "u", "4, 2", "a=8", "in0[a / 2, a % 2]") +
                     add8("y", "x", "r") + "output y\n",
                 {{"k", normal_constant({2, 4})}});
  const Graph folded = applied("fold_constants", graph);
  EXPECT_EQ(operators_of(folded),
            "y = expr(x, r) fast input in0: f32[8]; weight in1: f32[8]; out: f32[a=8] = in0[a] + "
            "in1[a]\n");
  const dsl::Array& k = *graph.constants.at("k").array;
  EXPECT_EQ(folded.constants.at("r").array->get({3}), k.get({1, 1}));
}

TEST(FoldConstants, LeavesLargeOnesAlone) {
  const Graph graph =
      graph_from(unary_line("y", "k", "2", "a=16777217, b=2", "in0[b] + f32(a)") + "output y\n",
                 {{"k", normal_constant({2})}});
  const auto folded = pass_of("fold_constants").apply(graph, {});
  ASSERT_TRUE(folded);
  EXPECT_EQ(operators_of(*folded), operators_of(graph));
}

/// Returns a product of constants that is too large for the interpreter to compute quickly.
Graph product_of_constants(int64_t k) {
  return graph_from(fmt::format("input x: f32[256, 256]\n"
                                "p = dense(u, w) m=256 n=256 k={} f32 fast\n"
                                "y = expr(x, p) fast input in0: f32[256, 256]; input in1: "
                                "f32[256, 256]; out: f32[a=256, b=256] = in0[a, b] + in1[a, b]\n"
                                "output y\n",
                                k),
                    {{"u", normal_constant({256, k}, 1)}, {"w", normal_constant({k, 256}, 2)}});
}

TEST(FoldConstants, AsksTheEvaluatorForLargeProducts) {
  int evaluated = 0;
  PassOptions options;
  options.evaluate = [&](const dsl::Workload& workload, const dsl::Arrays& inputs) {
    ++evaluated;
    EXPECT_EQ(workload.op, "dense");
    EXPECT_EQ(inputs.size(), 2u);
    dsl::Array product = dsl::Array::make(Float32, {256, 256}).value();
    product.set({3, 5}, 7);
    return dsl::Arrays{{workload.compute.outputs[0], std::move(product)}};
  };
  const auto folded = pass_of("fold_constants").apply(product_of_constants(256), options);
  ASSERT_TRUE(folded) << folded.error().message;
  EXPECT_EQ(evaluated, 1);
  EXPECT_EQ(folded->operators.size(), 1u);
  EXPECT_EQ(folded->constants.at("p").array->get({3, 5}), 7);
}

TEST(FoldConstants, InterpretsWhatTheEvaluatorCannotCompute) {
  PassOptions options;
  options.evaluate = [](const dsl::Workload&, const dsl::Arrays&) -> Result<dsl::Arrays> {
    return fail(ErrorCode::Environment, "[compile] no compiler");
  };
  const auto folded = pass_of("fold_constants").apply(product_of_constants(64), options);
  ASSERT_TRUE(folded) << folded.error().message;
  EXPECT_TRUE(folded->constants.contains("p"));
}

TEST(FoldConstants, StopsBetweenKernels) {
  PassOptions options;
  std::atomic<int> interrupts = 1;
  options.stop = stop_on_interrupt(&interrupts);
  options.evaluate = [](const dsl::Workload&, const dsl::Arrays&) { return dsl::Arrays(); };
  const auto stopped = pass_of("fold_constants").apply(product_of_constants(256), options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::Interrupted);
}

TEST(ShareCommon, ComputesEqualOperatorsOnce) {
  const Graph graph =
      graph_from("input x: f32[8]\n" + relu8("a", "x") + relu8("b", "x") + tanh8("c", "a") +
                 tanh8("d", "b") + add8("y", "c", "d") + "output y\n");
  EXPECT_EQ(after("share_common", graph), relu8("a", "x") + tanh8("c", "a") + add8("y", "c", "c"));
}

TEST(ShareCommon, EqualConstantsAreOne) {
  const Graph graph =
      graph_from(input_image + conv_line("a", "x", "v") + conv_line("b", "x", "w") +
                     add_line("y", "a", "b") + "output y\n",
                 {{"v", normal_constant({4, 4, 3, 3})}, {"w", normal_constant({4, 4, 3, 3})}});
  const Graph shared = applied("share_common", graph);
  EXPECT_EQ(operators_of(shared), conv_line("a", "x", "v") + add_line("y", "a", "a"));
  EXPECT_EQ(shared.constants.size(), 1u);
}

TEST(ShareCommon, OutputsKeepTheirNames) {
  const std::string operators = relu8("a", "x") + relu8("b", "x");
  const Graph graph = graph_from("input x: f32[8]\n" + operators + "output a, b\n");
  EXPECT_EQ(after("share_common", graph), operators);
}

std::string copy8(const std::string& out, const std::string& in) {
  return unary_line(out, in, "8", "a=8", "in0[a]");
}

TEST(RemoveCopies, ReadersReadTheSource) {
  const Graph graph = graph_from("input x: f32[8]\n" + copy8("c", "x") + copy8("d", "c") +
                                 relu8("y", "d") + "output y\n");
  EXPECT_EQ(after("remove_copies", graph), relu8("y", "x"));
}

TEST(RemoveCopies, ACopyThatIsAnOutputNamesItsSource) {
  const Graph graph = graph_from("input x: f32[8]\n" + relu8("t", "x") + copy8("y", "t") +
                                 tanh8("z", "t") + "output y, z\n");
  EXPECT_EQ(after("remove_copies", graph), relu8("y", "x") + tanh8("z", "y"));
}

TEST(RemoveCopies, OutputsThatAreNoOperatorsOwnStayCopies) {
  const std::string operators = copy8("y", "x") + relu8("t", "x") + copy8("u", "t");
  const Graph graph = graph_from("input x: f32[8]\n" + operators + "output y, t, u\n");
  EXPECT_EQ(after("remove_copies", graph), operators);
}

TEST(RemoveCopies, ReshapesJoin) {
  const Graph graph =
      graph_from("input x: f32[2, 6]\n" + reshape_line("a", "x", {2, 6}, {3, 4}) +
                 reshape_line("y", "a", {3, 4}, {12}) + reshape_line("b", "a", {3, 4}, {2, 6}) +
                 unary_line("z", "b", "2, 6", "a=2, b=6", "tanh(in0[a, b])") + "output y, z\n");
  EXPECT_EQ(after("remove_copies", graph),
            reshape_line("y", "x", {2, 6}, {12}) +
                unary_line("z", "x", "2, 6", "a=2, b=6", "tanh(in0[a, b])"));
}

TEST(RemoveCopies, TransposesJoinAndVanish) {
  const Graph graph = graph_from(
      "input x: f32[2, 6]\n" + transpose_line("a", "x", 2, 6) + transpose_line("b", "a", 6, 2) +
      unary_line("y", "b", "2, 6", "a=2, b=6", "tanh(in0[a, b])") + "output y\n");
  EXPECT_EQ(after("remove_copies", graph),
            unary_line("y", "x", "2, 6", "a=2, b=6", "tanh(in0[a, b])"));
  const Graph cycle = graph_from(
      "input x: f32[2, 3, 4]\n" + unary_line("a", "x", "2, 3, 4", "a=3, b=4, c=2", "in0[c, a, b]") +
      unary_line("y", "a", "3, 4, 2", "a=4, b=2, c=3", "in0[c, a, b]") + "output y\n");
  EXPECT_EQ(after("remove_copies", cycle),
            unary_line("y", "x", "2, 3, 4", "a=4, b=2, c=3", "in0[b, c, a]"));
}

TEST(RemoveCopies, ATransposeOfSingleDimensionsIsAReshape) {
  const Graph graph =
      graph_from("input x: f32[2, 1, 4]\n" +
                 unary_line("y", "x", "2, 1, 4", "a=1, b=2, c=4", "in0[b, a, c]") + "output y\n");
  EXPECT_EQ(after("remove_copies", graph), reshape_line("y", "x", {2, 1, 4}, {1, 2, 4}));
}

TEST(RemoveCopies, LeavesTransposesAndSlices) {
  const std::string operators =
      transpose_line("a", "x", 2, 6) + unary_line("y", "a", "6, 2", "a=5, b=2", "in0[a + 1, b]");
  const Graph graph = graph_from("input x: f32[2, 6]\n" + operators + "output y\n");
  EXPECT_EQ(after("remove_copies", graph), operators);
}

TEST(SinkReshapes, BiasAndResidualComeBeforeTheReshape) {
  const std::string bias =
      "b = expr(r, bias) fast input in0: f32[2, 3, 8]; weight in1: f32[8]; out: f32[a=2, b=3, c=8] "
      "= in0[a, b, c] + in1[c]\n";
  const std::string residual =
      "y = expr(b, s) fast input in0: f32[2, 3, 8]; input in1: f32[2, 3, 8]; out: f32[a=2, b=3, "
      "c=8] = in0[a, b, c] + in1[a, b, c]\n";
  const Graph graph = graph_from(
      "input x: f32[6, 4]\ninput s: f32[2, 3, 8]\np = dense(x, w) " + dense_attributes + "\n" +
          reshape_line("r", "p", {6, 8}, {2, 3, 8}) + bias + residual + "output y\n",
      {{"w", normal_constant({4, 8})}, {"bias", normal_constant({8})}});
  const Graph sunk = applied("sink_reshapes", graph);
  EXPECT_EQ(
      operators_of(sunk),
      "p = dense(x, w) " + dense_attributes + "\n" +
          "b.flat = expr(p, bias) fast input in0: f32[6, 8]; weight in1: f32[8]; out: f32[a=6, "
          "b=8] = in0[a, b] + in1[b]\n" +
          reshape_line("s.flat", "s", {2, 3, 8}, {6, 8}) +
          "y.flat = expr(b.flat, s.flat) fast input in0: f32[6, 8]; input in1: f32[6, 8]; out: "
          "f32[a=6, b=8] = in0[a, b] + in1[a, b]\n" +
          reshape_line("y", "y.flat", {6, 8}, {2, 3, 8}));
  const auto all = apply_passes(graph, {.verify = true});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->graph.operators.size(), 3u);
}

TEST(SinkReshapes, ChannelsOfGroupsAreTwoDimensions) {
  const Graph graph = graph_from(
      "input x: f32[1, 2, 2, 5, 5]\n"
      "c = conv2d(x, w) n=1 c=4 h=5 w=5 k=6 r=3 s=3 stride=1 pad=1 dilation=1 groups=2 f32 fast\n" +
          reshape_line("r", "c", {1, 2, 3, 5, 5}, {1, 6, 5, 5}) +
          "n = expr(r, g) fast input in0: f32[1, 6, 5, 5]; weight in1: f32[6, 1, 1]; out: f32[a=1, "
          "b=6, c=5, d=5] = in0[a, b, c, d] * in1[b, 0, 0] + 1.0\n" +
          unary_line("y", "n", "1, 6, 5, 5", "a=1, b=6, c=5, d=5", "max(in0[a, b, c, d], 0.0)") +
          "output y\n",
      {{"w", normal_constant({2, 3, 2, 3, 3}, 1)}, {"g", normal_constant({6, 1, 1}, 2)}});
  const auto passed = apply_passes(graph, {.verify = true});
  ASSERT_TRUE(passed) << passed.error().message;
  ASSERT_EQ(passed->graph.operators.size(), 2u) << to_text(passed->graph);
  EXPECT_THAT(passed->graph.operators[0].workload.key(), HasSubstr("groups=2 bias=1 relu=1"));
}

TEST(SinkReshapes, ReshapesBetweenElementwiseOperatorsComeLast) {
  const Graph graph = graph_from(
      "input x: f32[2, 6]\n" + unary_line("a", "x", "2, 6", "a=2, b=6", "tanh(in0[a, b])") +
      reshape_line("r", "a", {2, 6}, {3, 4}) +
      unary_line("y", "r", "3, 4", "a=3, b=4", "abs(in0[a, b])") + "output y\n");
  EXPECT_EQ(after("sink_reshapes", graph),
            unary_line("a", "x", "2, 6", "a=2, b=6", "tanh(in0[a, b])") +
                unary_line("y.flat", "a", "2, 6", "a=2, b=6", "abs(in0[a, b])") +
                reshape_line("y", "y.flat", {2, 6}, {3, 4}));
}

TEST(SinkReshapes, ABroadcastOfTheResultStays) {
  const Graph graph = graph_from(
      input_image + "p = global_avg_pool(x) n=1 c=4 h=6 w=6 f32 fast\n" +
      reshape_line("r", "p", {1, 4}, {1, 4, 1, 1}) +
      "y = expr(x, r) fast input in0: f32[1, 4, 6, 6]; input in1: f32[1, 4, 1, 1]; out: f32[a=1, "
      "b=4, c=6, d=6] = in0[a, b, c, d] * in1[0, b, 0, 0]\noutput y\n");
  EXPECT_EQ(after("sink_reshapes", graph), operators_of(graph));
}

TEST(SinkReshapes, LeavesWhatNeedsTheOtherIndices) {
  const Graph graph = graph_from("input x: f32[6, 4]\np = dense(x, w) " + dense_attributes + "\n" +
                                     reshape_line("r", "p", {6, 8}, {2, 3, 8}) +
                                     "y = expr(r, k) fast input in0: f32[2, 3, 8]; weight in1: "
                                     "f32[3]; out: f32[a=2, b=3, c=8] "
                                     "= in0[a, b, c] * in1[b]\noutput y\n",
                                 {{"w", normal_constant({4, 8})}, {"k", normal_constant({3})}});
  EXPECT_EQ(after("sink_reshapes", graph), operators_of(graph));
}

TEST(ApplyPasses, AResidualBlockIsTwoConvolutions) {
  const Graph graph = graph_from(input_image + conv_line("c1", "x", "w") +
                                     by_channel("n1", "c1", "in0[a, b, c, d] * in1[b] + in2[b]") +
                                     relu_line("r1", "n1") + conv_line("c2", "r1", "v") +
                                     by_channel("n2", "c2", "(in0[a, b, c, d] - in1[b]) * in2[b]") +
                                     add_line("s", "n2", "x") + relu_line("y", "s") + "output y\n",
                                 scale_weights());
  const auto passed = apply_passes(graph, {.verify = true});
  ASSERT_TRUE(passed) << passed.error().message;
  EXPECT_EQ(operators_of(passed->graph),
            "r1 = conv2d(x, n1.weight, n1.bias) " + conv_attributes + " bias=1 relu=1 f32 fast\n" +
                "y = conv2d(r1, n2.weight, n2.bias, x) " + conv_attributes +
                " bias=1 residual=1 relu=1 f32 fast\n");
}

TEST(ApplyPasses, RecordsEachRun) {
  double now = 0;
  PassOptions options{.disabled = {"share_common"}};
  options.clock_s = [&now] { return now += 0.25; };
  const Graph graph = graph_from("input x: f32[8]\n" + relu8("a", "x") + tanh8("y", "a") +
                                 tanh8("unread", "a") + "output y\n");
  const auto passed = apply_passes(graph, options);
  ASSERT_TRUE(passed);
  ASSERT_EQ(passed->runs.size(), passes().size() - 1);
  EXPECT_EQ(passed->runs[0].name, "drop_dead");
  EXPECT_EQ(passed->runs[0].operators_before, 3u);
  EXPECT_EQ(passed->runs[0].operators_after, 2u);
  EXPECT_EQ(passed->runs[0].seconds, 0.25);
  EXPECT_EQ(passed->graph.operators.size(), 1u);
}

TEST(ApplyPasses, SaysWhichPassesThereAre) {
  const auto passed = apply_passes({}, {.disabled = {"fuse_epilogue"}});
  ASSERT_FALSE(passed);
  EXPECT_EQ(passed.error().code, ErrorCode::Usage);
  EXPECT_THAT(passed.error().message, HasSubstr("did you mean 'fuse_epilogues'?"));
}

TEST(ApplyPasses, StopsWhenAsked) {
  const std::atomic<int> interrupts = 1;
  PassOptions options;
  options.stop = stop_on_interrupt(&interrupts);
  const auto passed = apply_passes(residual_block(), options);
  ASSERT_FALSE(passed);
  EXPECT_EQ(passed.error().code, ErrorCode::Interrupted);
}

TEST(ApplyPasses, RefusesInvalidGraphs) {
  Graph graph = residual_block();
  graph.outputs = {"nothing"};
  EXPECT_EQ(apply_passes(graph).error().code, ErrorCode::Invalid);
}

TEST(ApplyPasses, KeepsWhatRandomGraphsCompute) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = RandomGraph(seed).make(4 + static_cast<int>(seed % 16));
    const auto passed = apply_passes(graph, {.verify = true});
    ASSERT_TRUE(passed) << "seed " << seed << ": " << passed.error().message << "\n"
                        << to_text(graph);
    EXPECT_LE(passed->graph.operators.size(), graph.operators.size()) << seed;
    EXPECT_EQ(passed->graph.outputs, graph.outputs);
  }
}

TEST(ApplyPasses, EachPassMayBeLeftOut) {
  for (uint64_t seed = 100; seed < 104; ++seed)
    for (const Pass& pass : passes()) {
      const Graph graph = RandomGraph(seed).make(12);
      const auto passed =
          apply_passes(graph, {.disabled = {std::string(pass.name)}, .verify = true});
      ASSERT_TRUE(passed) << passed.error().message;
      for (const PassRun& run : passed->runs) EXPECT_NE(run.name, pass.name);
    }
}

TEST(ApplyPasses, ASecondTimeChangesNothing) {
  for (uint64_t seed = 200; seed < 210; ++seed) {
    const auto once = apply_passes(RandomGraph(seed).make(12));
    ASSERT_TRUE(once) << once.error().message;
    const auto twice = apply_passes(once->graph);
    ASSERT_TRUE(twice) << twice.error().message;
    EXPECT_EQ(to_text(twice->graph), to_text(once->graph)) << seed;
  }
}

TEST(ApplyPasses, Fault79_LongChainsAndDeepDiamondsAreQuick) {
  std::string chain = "input x0: f32[8]\n";
  for (int i = 0; i < 10'000; ++i) chain += relu8(fmt::format("x{}", i + 1), fmt::format("x{}", i));
  const auto passed = apply_passes(graph_from(chain + "output x10000\n"));
  ASSERT_TRUE(passed) << passed.error().message;
  EXPECT_LT(passed->graph.operators.size(), 1000u);

  std::string diamond = "input x0: f32[8]\n";
  for (int i = 0; i < 30; ++i) {
    diamond += tanh8(fmt::format("a{}", i), fmt::format("x{}", i));
    diamond += relu8(fmt::format("b{}", i), fmt::format("x{}", i));
    diamond += add8(fmt::format("x{}", i + 1), fmt::format("a{}", i), fmt::format("b{}", i));
  }
  const auto fused = apply_passes(graph_from(diamond + "output x30\n"), {.verify = true});
  ASSERT_TRUE(fused) << fused.error().message;
  EXPECT_LT(fused->graph.operators.size(), 30u);
  for (const Operator& op : fused->graph.operators)
    for (const dsl::Stage& stage : op.workload.compute.stages)
      EXPECT_LE(stage.body.node().size, 500);
}

TEST(Loops, ABodyIsFusedByItself) {
  const Graph graph = passed(recurrence(3));
  ASSERT_EQ(graph.loops.size(), 1u);
  // tanh is fused with the product. c1 and y, which leave the body, stay operators, and so does
  // relu, which is outside of the body.
  EXPECT_EQ(graph.operators.size(), 4u);
  EXPECT_EQ(graph.operators[0].outputs, std::vector<std::string>{"h1"});
  EXPECT_EQ(graph.operators[3].outputs, std::vector<std::string>{"z"});
}

TEST(Loops, WhatNoOutputNeedsIsDropped) {
  Graph graph = recurrence(3);
  graph.outputs = {"hs"};
  const Graph live = applied("drop_dead", graph);
  EXPECT_EQ(to_text(live).substr(to_text(live).find("loop")),
            "loop cell: 3\nslice x: xs\nshare u: v\nstate h: h0, h1\nstack hs: h1\n" +
                operators_of(live) + "end\noutput hs\n");
  EXPECT_EQ(live.operators.size(), 2u);
  graph.outputs = {"xs"};
  EXPECT_THAT(applied("drop_dead", graph).loops, testing::IsEmpty());
  // Only the last c is needed. h is computed for it, and nothing is stacked.
  graph.outputs = {"cn"};
  const Graph last = applied("drop_dead", graph);
  EXPECT_EQ(last.operators.size(), 3u);
  EXPECT_THAT(last.loops.at(0).stacks, testing::IsEmpty());
}

TEST(Loops, AConstantThatABodySharesIsItsWeight) {
  Graph graph = recurrence(3);
  graph.inputs.erase(graph.inputs.begin() + 1);
  graph.constants["v0"] = normal_constant({2, 3});
  graph.operators.insert(
      graph.operators.begin(),
      from_text("input a: f32[2, 3]\nout: f32[i=2, j=3] = a[i, j] * 2.0", {"v0"}, {"v"}, graph));
  const Graph folded = applied("fold_constants", graph);
  EXPECT_THAT(folded.loops.at(0).shares, testing::IsEmpty());
  EXPECT_TRUE(folded.constants.contains("v"));
}

TEST(Loops, AConstantThatLeavesABodyIsCopied) {
  Graph graph = recurrence(3);
  graph.operators[3] =
      from_text("input a: f32[2, 3]\nout: f32[i=2, j=3] = a[i, j] * 2.0", {"c0"}, {"y"}, graph);
  graph.operators[3].loop = 0;
  const Graph folded = applied("fold_constants", graph);
  EXPECT_EQ(folded.operators.size(), 5u);
  EXPECT_TRUE(folded.constants.contains("y.value"));
  passed(graph);
}

TEST(Loops, OperatorsBetweenTwoLoopsKeepTheirPlaces) {
  Graph graph = recurrence(2);
  Graph second = graph;
  const auto rename = [](std::string& name) {
    if (name != "w" && name != "c0" && name != "xs" && name != "v") name += "2";
  };
  second.loops[0].slices[0].outside = "z";
  for (Loop& loop : second.loops) {
    loop.name += "2";
    for (Loop::Share& share : loop.shares) rename(share.inside);
    for (Loop::Slice& slice : loop.slices) rename(slice.inside);
    for (Loop::State& state : loop.states)
      for (std::string* name : {&state.inside, &state.next, &state.last}) rename(*name);
    for (Loop::Slice& stack : loop.stacks)
      for (std::string* name : {&stack.inside, &stack.outside}) rename(*name);
  }
  for (Operator op : second.operators) {
    for (std::string& name : op.inputs) rename(name);
    for (std::string& name : op.outputs) rename(name);
    if (op.loop) op.loop = 1;
    graph.operators.push_back(op);
  }
  graph.loops.push_back(second.loops[0]);
  graph.outputs = {"z2", "hn"};
  const Graph both = passed(graph);
  EXPECT_EQ(both.loops.size(), 2u);
}

/// Returns the graph as the body of a loop. Its inputs are slices and shares by turns, and its
/// outputs are stacked.
Graph as_body(const Graph& body) {
  Graph graph = {{}, body.constants, body.operators, {}, {}};
  Loop loop;
  loop.name = "loop";
  loop.trips = 2;
  for (const Port& port : body.inputs) {
    TensorType type = port.type;
    const std::string outside = port.name + ".outside";
    if (graph.inputs.size() % 2 == 0) {
      type.shape.insert(type.shape.begin(), loop.trips);
      loop.slices.push_back({port.name, outside, false});
    } else {
      loop.shares.push_back({port.name, outside});
    }
    graph.inputs.push_back({outside, type});
  }
  for (Operator& op : graph.operators) {
    op.loop = 0;
    for (const std::string& output : op.outputs)
      if (std::ranges::find(body.outputs, output) != body.outputs.end()) {
        loop.stacks.push_back({output, output + ".all", true});
        graph.outputs.push_back(output + ".all");
      }
  }
  graph.loops = {loop};
  return graph;
}

TEST(Loops, RoundedBodiesKeepTheirResults) {
  for (uint64_t seed = 1; seed <= 20; ++seed) rounded(as_body(RandomGraph(seed).make(10)), true);
}

TEST(Loops, RandomBodiesKeepTheirResults) {
  for (uint64_t seed = 500; seed < 520; ++seed) {
    const Graph graph = as_body(RandomGraph(seed).make(10));
    const Status valid = validate(graph);
    ASSERT_TRUE(valid) << valid.error().message;
    const auto result = apply_passes(graph, {.verify = true});
    ASSERT_TRUE(result) << seed << ": " << result.error().message;
  }
}

}  // namespace
}  // namespace tw::graph
