// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/passes.h"
#include "tests/graph/pass_graphs.h"
#include "tests/graph/random_graph.h"

namespace tw::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string padded_line(const std::string& out, const std::string& in, const std::string& value) {
  return unary_line(
      out, in, "1, 4, 6, 6", "a=1, b=4, c=9, d=8",
      "select(0 <= c - 2 && c - 2 < 6 && 0 <= d - 1 && d - 1 < 6, in0[a, b, c - 2, d - "
      "1], " +
          value + ")");
}

TEST(FusePadding, ConvolutionsPadByThemselves) {
  const Graph graph =
      graph_from(input_image + padded_line("p", "x", "0.0") +
                     "y = conv2d(p, w) n=1 c=4 h=9 w=8 k=4 r=3 s=3 stride=1 pad=0 dilation=1 "
                     "groups=1 f32 fast\noutput y\n",
                 conv_weights());
  EXPECT_THAT(after("fuse_padding", graph),
              HasSubstr("y = conv2d(x, w) n=1 c=4 h=6 w=6 k=4 r=3 s=3 stride=1 pad=2 pad_left=1 "
                        "pad_bottom=1 pad_right=1 dilation=1 groups=1 f32 fast\n"));
  EXPECT_EQ(applied("fuse_padding", graph).operators.size(), 1u);
}

TEST(FusePadding, PoolingTakesThePaddingThatIsItsOwn) {
  const auto pooled = [&](const std::string& value) {
    return graph_from(input_image + padded_line("p", "x", value) +
                      "y = max_pool2d(p) n=1 c=4 h=9 w=8 kernel=3 stride=1 pad=0 f32 fast\n"
                      "output y\n");
  };
  EXPECT_EQ(applied("fuse_padding", pooled("-inf")).operators.size(), 1u);
  EXPECT_EQ(after("fuse_padding", pooled("0.0")), operators_of(pooled("0.0")));
}

TEST(FusePadding, LeavesOtherValuesAlone) {
  const Graph graph =
      graph_from(input_image + padded_line("p", "x", "1.0") +
                     "y = conv2d(p, w) n=1 c=4 h=9 w=8 k=4 r=3 s=3 stride=1 pad=0 dilation=1 "
                     "groups=1 f32 fast\noutput y\n",
                 conv_weights());
  EXPECT_EQ(after("fuse_padding", graph), operators_of(graph));
}

TEST(FuseElementwise, ChainsAreOne) {
  const Graph graph = graph_from("input x: f32[8]\n" + relu8("a", "x") + tanh8("b", "a") +
                                 add8("y", "b", "x") + "output y\n");
  EXPECT_EQ(
      after("fuse_elementwise", graph),
      "y = expr(x) fast input in0: f32[8]; out: f32[a=8] = tanh(max(in0[a], 0.0)) + in0[a]\n");
}

TEST(FuseElementwise, DiamondsAreOneExpression) {
  const std::string product =
      "y = expr(b, a) fast input in0: f32[8]; input in1: f32[8]; out: f32[a=8] = in0[a] * in1[a]\n";
  const Graph graph =
      graph_from("input x: f32[8]\n" + relu8("a", "x") + tanh8("b", "a") + product + "output y\n");
  EXPECT_EQ(after("fuse_elementwise", graph),
            "y = expr(x) fast input in0: f32[8]; out: f32[a=8] = tanh(max(in0[a], 0.0)) * "
            "max(in0[a], 0.0)\n");
}

TEST(FuseElementwise, ATensorMayBeSeveralInputs) {
  const Graph graph =
      graph_from("input x: f32[8]\n" + tanh8("a", "x") + add8("y", "a", "a") + "output y\n");
  EXPECT_EQ(after("fuse_elementwise", graph),
            "y = expr(x) fast input in0: f32[8]; out: f32[a=8] = tanh(in0[a]) + tanh(in0[a])\n");
}

// Two products are quantized and then added. The tensors between the kernels must have 8 bits.
TEST(FuseElementwise, WhatNarrowsAReductionStaysWithIt) {
  const auto product = [](const std::string& out, const std::string& in) {
    return out + " = expr(" + in +
           ") fast input in0: f32[8, 8]; out: f32[a=8, b=8] = sum(k=8) in0[a, k] * in0[k, b]\n";
  };
  const auto rounded = [](const std::string& out, const std::string& in) {
    return out + " = expr(" + in +
           ") fast input in0: f32[8, 8]; out: u8[a=8, b=8] = u8(clamp(round(in0[a, b]), 0.0, "
           "255.0))\n";
  };
  const Graph graph = graph_from(
      "input x: f32[8, 8]\ninput z: f32[8, 8]\n" + product("a", "x") + rounded("qa", "a") +
      product("b", "z") + rounded("qb", "b") +
      "y = expr(qa, qb) fast input in0: u8[8, 8]; input in1: u8[8, 8]; out: f32[a=8, b=8] = "
      "f32(i32(in0[a, b])) * 0.5 + f32(i32(in1[a, b])) * 0.25\noutput y\n");
  EXPECT_EQ(applied("fuse_elementwise", graph).operators.size(), 5u);
  auto fused = apply_passes(graph, {.verify = true});
  ASSERT_TRUE(fused) << fused.error().message;
  const std::string lines = operators_of(fused->graph);
  EXPECT_EQ(fused->graph.operators.size(), 2u) << lines;
  EXPECT_THAT(lines, HasSubstr("qa = expr(x)"));
}

// The operator q, whose result is narrow, reads a sum over its whole row, so that it cannot join
// the reduction. It stays in its group.
TEST(FuseElementwise, WhatReadsARowOfAReductionIsNotPartOfIt) {
  const Graph graph = graph_from(
      "input x: f32[8, 8]\n"
      "m = expr(x) fast input in0: f32[8, 8]; out: f32[a=8, b=1] = sum(k=8) in0[a, k]\n"
      "q = expr(x, m) fast input in0: f32[8, 8]; input in1: f32[8, 1]; out: u8[a=8, b=8] = "
      "u8(clamp(in0[a, b] - in1[a, 0], 0.0, 255.0))\n"
      "y = expr(q, x) fast input in0: u8[8, 8]; input in1: f32[8, 8]; out: f32[a=8, b=8] = "
      "f32(i32(in0[a, b])) + in1[a, b]\noutput y\n");
  EXPECT_EQ(applied("fuse_elementwise", graph).operators.size(), 2u);
}

TEST(FuseElementwise, OutputsInTheMiddleAndSharedTensorsStay) {
  const std::string middle = relu8("a", "x") + tanh8("y", "a");
  EXPECT_EQ(after("fuse_elementwise", graph_from("input x: f32[8]\n" + middle + "output a, y\n")),
            middle);
  const std::string shared = relu8("a", "x") + tanh8("y", "a") + relu8("z", "a");
  EXPECT_EQ(after("fuse_elementwise", graph_from("input x: f32[8]\n" + shared + "output y, z\n")),
            shared);
}

TEST(FuseElementwise, ReshapesAndTransposesStay) {
  const std::string operators =
      unary_line("a", "x", "2, 6", "a=2, b=6", "tanh(in0[a, b])") + transpose_line("b", "a", 2, 6) +
      unary_line("c", "b", "6, 2", "a=6, b=2", "tanh(in0[a, b])") +
      reshape_line("d", "c", {6, 2}, {12}) + unary_line("y", "d", "12", "a=12", "tanh(in0[a])");
  const Graph graph = graph_from("input x: f32[2, 6]\n" + operators + "output y\n");
  EXPECT_EQ(after("fuse_elementwise", graph), operators);
}

TEST(FuseElementwise, KernelsReadAtMostEightTensors) {
  std::string text = "input x0: f32[8]\n", operators;
  std::string sum = "x0";
  for (int i = 1; i < 12; ++i) {
    text += fmt::format("input x{}: f32[8]\n", i);
    const std::string next = fmt::format("s{}", i);
    operators += add8(next, sum, fmt::format("x{}", i));
    sum = next;
  }
  const Graph fused =
      applied("fuse_elementwise", graph_from(text + operators + "output " + sum + "\n"));
  EXPECT_EQ(fused.operators.size(), 2u);
  for (const Operator& op : fused.operators) EXPECT_LE(op.inputs.size(), 8u);
}

TEST(FuseEpilogues, AConvolutionTakesBiasResidualAndRelu) {
  const Graph graph =
      graph_from(input_image + "input s: f32[1, 4, 6, 6]\n" +
                     fmt::format("c = conv2d(x, w, g) {} bias=1 f32 fast\n", conv_attributes) +
                     add_line("t", "s", "c") + relu_line("y", "t") + "output y\n",
                 scale_weights());
  EXPECT_EQ(after("fuse_epilogues", graph),
            "y = conv2d(x, w, g, s) " + conv_attributes + " bias=1 residual=1 relu=1 f32 fast\n");
}

TEST(FuseEpilogues, TheOnlyImageMayBeReadAsNumberZero) {
  const Graph graph =
      graph_from(input_image + "input s: f32[1, 4, 6, 6]\n" + conv_line("c", "x") +
                     "y = expr(s, c) fast input in0: f32[1, 4, 6, 6]; input in1: f32[1, 4, 6, 6]; "
                     "out: f32[a=1, b=4, c=6, d=6] = max(in0[0, b, c, d] + in1[0, b, c, d], 0.0)\n"
                     "output y\n",
                 conv_weights());
  EXPECT_EQ(after("fuse_epilogues", graph),
            "y = conv2d(x, w, s) " + conv_attributes + " residual=1 relu=1 f32 fast\n");
}

TEST(FuseEpilogues, OfTwoConvolutionsTheLaterOneTakesTheSum) {
  const Graph graph = graph_from(input_image + conv_line("a", "x", "w") + conv_line("b", "x", "v") +
                                     add_line("y", "a", "b") + "output y\n",
                                 conv_weights());
  EXPECT_EQ(after("fuse_epilogues", graph), conv_line("a", "x", "w") + "y = conv2d(x, v, a) " +
                                                conv_attributes + " residual=1 f32 fast\n");
}

TEST(FuseEpilogues, TheResidualMayBeWhatTheConvolutionReads) {
  for (const bool first : {true, false}) {
    const Graph graph = graph_from(input_image + conv_line("c", "x") +
                                       add_line("t", first ? "x" : "c", first ? "c" : "x") +
                                       relu_line("y", "t") + "output y\n",
                                   conv_weights());
    EXPECT_EQ(after("fuse_epilogues", graph),
              "y = conv2d(x, w, x) " + conv_attributes + " residual=1 relu=1 f32 fast\n");
  }
}

TEST(FuseEpilogues, ABiasIsWrittenOutWhereTheActivationReadsItTwice) {
  const Graph graph = graph_from(
      input_image + fmt::format("c = conv2d(x, w, g) {} bias=1 f32 fast\n", conv_attributes) +
          on_image("y", "c", "in0[a, b, c, d] / (1.0 + exp(-in0[a, b, c, d]))") + "output y\n",
      scale_weights());
  const Graph fused = applied("fuse_epilogues", graph);
  ASSERT_EQ(fused.operators.size(), 1u);
  EXPECT_EQ(fused.operators[0].workload.compute.stages.size(), 2u);
}

TEST(FuseEpilogues, PoolingAndReductionsTakeThem) {
  const Graph graph = graph_from(
      input_image + "m = max_pool2d(x) n=1 c=4 h=6 w=6 kernel=3 stride=1 pad=1 f32 fast\n" +
      relu_line("r", "m") + "p = global_avg_pool(r) n=1 c=4 h=6 w=6 f32 fast\n" +
      unary_line("y", "p", "1, 4", "a=1, b=4", "tanh(in0[a, b])") + "output y\n");
  EXPECT_EQ(applied("fuse_epilogues", graph).operators.size(), 2u);
}

TEST(FuseEpilogues, AnIntegerConvolutionTakesItsQuantization) {
  dsl::Array weights = dsl::Array::make(Int8, {4, 4, 3, 3}).value();
  Random random(5);
  dsl::fill_integers(weights, random);
  const Graph graph = graph_from(
      "input x: i8[1, 4, 6, 6]\nc = conv2d(x, w) " + conv_attributes +
          " i8 fast\n"
          "y = expr(c) fast input in0: i32[1, 4, 6, 6]; out: i8[a=1, b=4, c=6, d=6] = "
          "i8(clamp(floor(f32(in0[a, b, c, d]) * 0.0625 + 0.5), -128.0, 127.0))\noutput y\n",
      {{"w", make_constant(weights)}});
  const Graph fused = applied("fuse_epilogues", graph);
  ASSERT_EQ(fused.operators.size(), 1u);
  EXPECT_EQ(fused.operators[0].workload.compute.stages.size(), 2u);
}

TEST(FuseEpilogues, LeavesStrictOperatorsAlone) {
  const std::string strict_relu =
      "y = expr(c) strict input in0: f32[1, 4, 6, 6]; out: f32[a=1, b=4, c=6, d=6] = max(in0[a, b, "
      "c, d], 0.0)\n";
  const Graph graph =
      graph_from(input_image + conv_line("c", "x") + strict_relu + "output y\n", conv_weights());
  EXPECT_EQ(after("fuse_epilogues", graph), operators_of(graph));
  const auto all = apply_passes(graph);
  ASSERT_TRUE(all);
  EXPECT_EQ(operators_of(all->graph), operators_of(graph));
}

TEST(FuseEpilogues, LeavesSharedResultsAndOutputs) {
  const auto left = [](const std::string& operators, const std::string& outputs) {
    const Graph graph =
        graph_from(input_image + operators + "output " + outputs + "\n", conv_weights());
    EXPECT_EQ(after("fuse_epilogues", graph), operators_of(graph));
  };
  left(conv_line("c", "x") + relu_line("y", "c"), "c, y");
  left(conv_line("c", "x") + relu_line("y", "c") + conv_line("z", "c", "v"), "y, z");
  left(conv_line("c", "x") + on_image("y", "c", "in0[a, b, d, c]"), "y");
}

TEST(FusePrologues, ReductionsTakeWhatTheyAloneRead) {
  const Graph graph = graph_from(input_image + relu_line("r", "x") +
                                 "y = global_avg_pool(r) n=1 c=4 h=6 w=6 f32 fast\noutput y\n");
  const Graph fused = applied("fuse_prologues", graph);
  ASSERT_EQ(fused.operators.size(), 1u);
  EXPECT_EQ(fused.operators[0].workload.compute.stages.size(), 2u);
  const Graph rows = graph_from("input x: f32[4, 6]\n" +
                                unary_line("t", "x", "4, 6", "a=4, b=6", "in0[a, b] * 0.125") +
                                "y = softmax(t) rows=4 cols=6 f32 fast\noutput y\n");
  EXPECT_EQ(applied("fuse_prologues", rows).operators.size(), 1u);
}

TEST(FusePrologues, LeavesProductsAndOverlappingWindows) {
  const auto left = [](const std::string& last) {
    const Graph graph =
        graph_from(input_image + relu_line("r", "x") + last + "output y\n", conv_weights());
    EXPECT_EQ(after("fuse_prologues", graph), operators_of(graph));
  };
  left(conv_line("y", "r"));
  left("y = max_pool2d(r) n=1 c=4 h=6 w=6 kernel=3 stride=1 pad=1 f32 fast\n");
}

std::string conv_1x1(const std::string& out, const std::string& w, int channels) {
  return fmt::format(
      "{} = conv2d(x, {}) n=1 c=4 h=6 w=6 k={} r=1 s=1 stride=1 pad=0 dilation=1 groups=1 relu=1 "
      "f32 fast\n",
      out, w, channels);
}

TEST(MergeSiblings, ConvolutionsSideBySideAreOne) {
  const Graph graph = graph_from(
      input_image + conv_1x1("a", "v", 3) + conv_1x1("b", "w", 5) +
          "y = expr(a, b) fast input in0: f32[1, 3, 6, 6]; input in1: f32[1, 5, 6, 6]; out: "
          "f32[a=1, b=8, c=6, d=6] = select(b < 3, in0[a, b, c, d], in1[a, b - 3, c, d])\noutput "
          "y\n",
      {{"v", normal_constant({3, 4, 1, 1}, 1)}, {"w", normal_constant({5, 4, 1, 1}, 2)}});
  EXPECT_EQ(after("merge_siblings", graph), conv_1x1("y", "v.stacked", 8));
}

TEST(MergeSiblings, WhatStandsBesideThemStays) {
  const Graph graph = graph_from(
      input_image + conv_1x1("a", "v", 3) + conv_1x1("b", "w", 5) +
          "y = expr(a, b, x) fast input in0: f32[1, 3, 6, 6]; input in1: f32[1, 5, 6, 6]; input "
          "in2: f32[1, 4, 6, 6]; out: f32[a=1, b=12, c=6, d=6] = select(b < 8, select(b < 3, "
          "in0[a, "
          "b, c, d], in1[a, b - 3, c, d]), in2[a, b - 8, c, d])\noutput y\n",
      {{"v", normal_constant({3, 4, 1, 1}, 1)}, {"w", normal_constant({5, 4, 1, 1}, 2)}});
  const Graph merged = applied("merge_siblings", graph);
  ASSERT_EQ(merged.operators.size(), 2u);
  EXPECT_EQ(merged.operators[0].workload.attributes.at("k"), 8);
  EXPECT_THAT(merged.operators[1].inputs, ElementsAre(merged.operators[0].name(), "x"));
}

TEST(MergeSiblings, LeavesConvolutionsThatOthersRead) {
  const Graph graph = graph_from(
      input_image + conv_1x1("a", "v", 3) + conv_1x1("b", "w", 5) +
          "y = expr(a, b) fast input in0: f32[1, 3, 6, 6]; input in1: f32[1, 5, 6, 6]; out: "
          "f32[a=1, b=8, c=6, d=6] = select(b < 3, in0[a, b, c, d], in1[a, b - 3, c, d])\noutput "
          "y, b\n",
      {{"v", normal_constant({3, 4, 1, 1}, 1)}, {"w", normal_constant({5, 4, 1, 1}, 2)}});
  EXPECT_EQ(after("merge_siblings", graph), operators_of(graph));
}

/// Returns weights [k, n], or [n, k, 1, 1] if `transposed`, in blocks of `rows` x `columns`. One of
/// five blocks is kept, and fewer in the first column of blocks. All other elements are 0.
Constant sparse_weights(int64_t k, int64_t n, int64_t rows, int64_t columns, bool transposed) {
  dsl::Array array =
      normal_array(transposed ? std::vector<int64_t>{n, k, 1, 1} : std::vector<int64_t>{k, n}, 3);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const int64_t row = i / rows, column = j / columns;
      const bool kept = (row + column) % 5 == 0 && (column > 0 || row < 3);
      if (!kept) array.set_float(transposed ? j * k + i : i * n + j, 0);
    }
  return make_constant(std::move(array));
}

const std::string product_line =
    "input x: f32[6, 40]\ny = dense(x, w, v) m=6 n=48 k=40 bias=1 relu=1 f32 fast\noutput y\n";

TEST(CompressBlocks, ChangesTheGraphButNotTheNumberOfOperators) {
  const Graph graph = graph_from(
      product_line, {{"v", normal_constant({48})}, {"w", sparse_weights(40, 48, 1, 16, false)}});
  const auto passed = apply_passes(graph, {});
  ASSERT_TRUE(passed) << passed.error().message;
  std::vector<std::string> changing;
  for (const PassRun& run : passed->runs)
    if (run.changed) changing.push_back(run.name);
  EXPECT_EQ(changing, std::vector<std::string>{"compress_blocks"});
}

TEST(CompressBlocks, RowsOfSixteenZerosAreLeftOut) {
  const Graph graph = graph_from(
      product_line, {{"v", normal_constant({48})}, {"w", sparse_weights(40, 48, 1, 16, false)}});
  const Graph small = applied("compress_blocks", graph);
  EXPECT_EQ(
      operators_of(small),
      "y = expr(x, w.rows, w.blocks, v) fast input in0: f32[6, 40] @MK; weight in1: i32[3, 8]; "
      "weight in2: f32[8, 48]; weight in3: f32[48]; t0: f32[m=6, n=48] @MN = sum(r0=8) in0[m, "
      "max(min(i64(in1[n / 16, r0]), 39), 0)] * in2[r0, n]; out: f32[m=6, n=48] @MN = max(t0[m, n] "
      "+ in3[n], 0.0)\n");
  EXPECT_FALSE(small.constants.contains("w"));
  // The first column of blocks has one block, the others have eight. Zeros fill up the first one.
  const dsl::Array& rows = *small.constants.at("w.rows").array;
  EXPECT_EQ(rows.get_int(0), 0);
  EXPECT_EQ(rows.get_int(1), 0);
  EXPECT_EQ(rows.get_int(8), 4);
  EXPECT_EQ(rows.get_int(9), 9);
  const dsl::Array& blocks = *small.constants.at("w.blocks").array;
  const dsl::Array& weights = *graph.constants.at("w").array;
  EXPECT_EQ(blocks.get({0, 20}), weights.get({4, 20}));
  EXPECT_EQ(blocks.get({1, 0}), 0);
}

TEST(CompressBlocks, BlocksOfFourByFourKeepTheirRowsTogether) {
  const Graph graph = graph_from(
      product_line, {{"v", normal_constant({48})}, {"w", sparse_weights(40, 48, 4, 4, false)}});
  const Graph small = applied("compress_blocks", graph);
  EXPECT_THAT(operators_of(small),
              HasSubstr("sum(r0=2, r1=4) in0[m, max(min(i64(in1[n / 4, r0]), 9), 0) * 4 + r1] * "
                        "in2[n, r0, r1]"));
}

TEST(CompressBlocks, ConvolutionsSumOverTheChannelsThatAreLeft) {
  const Graph graph = graph_from(
      "input x: f32[1, 20, 5, 5]\ny = conv2d(x, w) n=1 c=20 h=5 w=5 k=32 r=1 s=1 stride=1 pad=0 "
      "dilation=1 groups=1 f32 fast\noutput y\n",
      {{"w", sparse_weights(20, 32, 1, 16, true)}});
  EXPECT_THAT(
      after("compress_blocks", graph),
      HasSubstr(
          "in0[n, max(min(i64(in1[c / 16, r0]), 19), 0), h + r1, w + r2] * in2[c, r0, r1, r2]"));
}

TEST(CompressBlocks, PaddedWindowsKeepTheirTaps) {
  dsl::Array weights = normal_array({16, 12, 3, 3}, 5);
  for (int64_t i = 0; i < weights.size(); ++i)
    if (i / 9 % 12 % 4 != 1) weights.set_float(i, 0);
  const Graph graph = graph_from(
      "input x: f32[1, 12, 5, 5]\ny = conv2d(x, w) n=1 c=12 h=5 w=5 k=16 r=3 s=3 stride=1 pad=1 "
      "dilation=1 groups=1 f32 fast\noutput y\n",
      {{"w", make_constant(std::move(weights))}});
  EXPECT_THAT(after("compress_blocks", graph), HasSubstr("sum(r0=3, r1=3, r2=3)"));
}

TEST(CompressBlocks, LeavesWeightsWithFewBlocksOfZeros) {
  const Constant bias = normal_constant({48});
  const Graph dense = graph_from(product_line, {{"v", bias}, {"w", normal_constant({40, 48})}});
  EXPECT_EQ(after("compress_blocks", dense), operators_of(dense));
  // Nine of ten elements are zero, but they form no blocks.
  dsl::Array scattered = normal_array({40, 48}, 9);
  for (int64_t i = 0; i < scattered.size(); ++i)
    if (i * 7 % 10 != 0) scattered.set_float(i, 0);
  const Graph unordered =
      graph_from(product_line, {{"v", bias}, {"w", make_constant(std::move(scattered))}});
  EXPECT_EQ(after("compress_blocks", unordered), operators_of(unordered));
}

TEST(CompressBlocks, LeavesStrictProductsAndWeightsThatAreReadTwice) {
  const Constant sparse = sparse_weights(40, 48, 1, 16, false);
  const Graph strict = graph_from(
      "input x: f32[6, 40]\ny = dense(x, w) m=6 n=48 k=40 f32 strict\noutput y\n", {{"w", sparse}});
  EXPECT_EQ(after("compress_blocks", strict), operators_of(strict));
  const Graph twice = graph_from(
      "input x: f32[6, 40]\ny = expr(x, w) fast input in0: f32[6, 40]; weight in1: f32[40, 48]; "
      "t0: f32[a=6, b=48] = sum(r0=40) in0[a, r0] * in1[r0, b]; out: f32[a=6, b=48] = "
      "t0[a, b] + in1[a, b]\noutput y\n",
      {{"w", sparse}});
  EXPECT_EQ(after("compress_blocks", twice), operators_of(twice));
}

// The product sums only 32 of the 40 rows of the weights.
TEST(CompressBlocks, LeavesWeightsThatAreSummedInPart) {
  const Graph part = graph_from(
      "input x: f32[6, 32]\ny = expr(x, w) fast input in0: f32[6, 32]; weight in1: f32[40, 48]; "
      "out: f32[a=6, b=48] = sum(r0=32) in0[a, r0] * in1[r0, b]\noutput y\n",
      {{"w", sparse_weights(40, 48, 1, 16, false)}});
  EXPECT_EQ(after("compress_blocks", part), operators_of(part));
}

TEST(CompressBlocks, WeightsOfZerosAloneLeaveOneBlock) {
  dsl::Array zeros = dsl::Array::make(Float32, {40, 48}).value();
  const Graph graph = graph_from(
      product_line, {{"v", normal_constant({48})}, {"w", make_constant(std::move(zeros))}});
  EXPECT_THAT(after("compress_blocks", graph), HasSubstr("sum(r0=1)"));
}

/// Returns the line of an operator that concatenates `tensors` to `out`. `channels` has the number
/// of channels of each.
std::string concat_line(const std::string& out, const std::vector<std::string>& tensors,
                        const std::vector<int64_t>& channels, size_t dimension = 1) {
  std::vector<std::vector<int64_t>> shapes;
  for (const int64_t count : channels) {
    shapes.push_back({1, 4, 6, 6});
    shapes.back()[dimension] = count;
  }
  Graph graph;
  graph.operators = {
      make_operator(concatenate(Float32, shapes, dimension).value(), tensors, {out}, {}).value()};
  return operators_of(graph);
}

TEST(NestConcatenations, TheLaterReadsTheEarlierItContains) {
  const Graph graph = graph_from(
      input_image + relu_line("a", "x") + relu_line("b", "a") +
      concat_line("y", {"x", "a"}, {4, 4}) + concat_line("z", {"x", "a", "b"}, {4, 4, 4}) +
      concat_line("u", {"b", "x", "a", "b", "x"}, {4, 4, 4, 4, 4}) + "output y, z, u\n");
  const Graph nested = applied("nest_concatenations", graph);
  ASSERT_EQ(nested.operators.size(), 5u);
  EXPECT_THAT(nested.operators[2].inputs, ElementsAre("x", "a"));
  EXPECT_THAT(nested.operators[3].inputs, ElementsAre("y", "b"));
  EXPECT_THAT(nested.operators[4].inputs, ElementsAre("b", "z", "x"));
}

TEST(NestConcatenations, LeavesOthersAlone) {
  const Graph graph = graph_from(
      input_image + relu_line("a", "x") + relu_line("b", "a") +
      concat_line("y", {"x", "a"}, {4, 4}) + concat_line("rows", {"x", "a", "b"}, {6, 6, 6}, 2) +
      concat_line("turned", {"a", "x", "b"}, {4, 4, 4}) + concat_line("same", {"x", "a"}, {4, 4}) +
      "output y, rows, turned, same\n");
  EXPECT_EQ(after("nest_concatenations", graph), operators_of(graph));
}

/// Returns an attention with two heads, 5 queries and 7 keys of 4 numbers. The keys have the order
/// of dimensions that a projection gives them.
Graph attention_graph(const std::string& scale) {
  return graph_from("input q: f32[2, 5, 4]\ninput k: f32[1, 7, 2, 4]\ninput v: f32[2, 7, 4]\n" +
                    unary_line("kt", "k", "1, 7, 2, 4", "a=1, b=2, c=4, d=7", "in0[a, d, b, c]") +
                    reshape_line("kr", "kt", {1, 2, 4, 7}, {2, 4, 7}) +
                    "s = batch_matmul(q, kr) b=2 m=5 n=7 k=4 f32 fast\n" +
                    unary_line("e", "s", "2, 5, 7", "a=2, b=5, c=7", "in0[a, b, c] " + scale) +
                    reshape_line("er", "e", {2, 5, 7}, {10, 7}) +
                    "p = softmax(er) rows=10 cols=7 f32 fast\n" +
                    reshape_line("pr", "p", {10, 7}, {2, 5, 7}) +
                    "y = batch_matmul(pr, v) b=2 m=5 n=4 k=7 f32 fast\noutput y\n");
}

TEST(NameAttention, RecognisesItWithItsScale) {
  for (const std::string scale : {"* 0.5", "/ 2.0"})
    EXPECT_EQ(after("name_attention", attention_graph(scale)),
              unary_line("kr.keys", "k", "1, 7, 2, 4", "a=1, b=2, c=7, d=4", "in0[a, c, b, d]") +
                  reshape_line("kr.rows", "kr.keys", {1, 2, 7, 4}, {2, 7, 4}) +
                  "y = attention(q, kr.rows, v) b=2 m=5 n=7 d=4 f32 fast\n");
}

/// Like attention_graph(), but Where(mask, scores, low) hides keys before the scores are scaled.
Graph masked_attention_graph(int64_t first_unseen, const std::string& low) {
  dsl::Array mask = dsl::Array::make(Bool, {1, 5, 7}).value();
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 7; ++j) mask.set({0, i, j}, j < i + first_unseen);
  return graph_from("input q: f32[2, 5, 4]\ninput k: f32[2, 7, 4]\ninput v: f32[2, 7, 4]\n" +
                        unary_line("kt", "k", "2, 7, 4", "a=2, b=4, c=7", "in0[a, c, b]") +
                        "s = batch_matmul(q, kt) b=2 m=5 n=7 k=4 f32 fast\n"
                        "w = expr(mask, s) fast weight in0: bool[1, 5, 7]; input in1: f32[2, 5, "
                        "7]; out: f32[a=2, "
                        "b=5, c=7] = select(in0[0, b, c], in1[a, b, c], " +
                        low + ")\n" +
                        unary_line("e", "w", "2, 5, 7", "a=2, b=5, c=7", "in0[a, b, c] / 2.0") +
                        reshape_line("er", "e", {2, 5, 7}, {10, 7}) +
                        "p = softmax(er) rows=10 cols=7 f32 fast\n" +
                        reshape_line("pr", "p", {10, 7}, {2, 5, 7}) +
                        "y = batch_matmul(pr, v) b=2 m=5 n=4 k=7 f32 fast\noutput y\n",
                    {{"mask", make_constant(mask)}});
}

TEST(NameAttention, RecognisesACausalMask) {
  for (const std::string low : {"-3.4e38", "-inf"})
    EXPECT_EQ(after("name_attention", masked_attention_graph(3, low)),
              "y = attention(q, k, v) b=2 m=5 n=7 d=4 causal=1 f32 fast\n");
}

TEST(NameAttention, LeavesOtherMasks) {
  for (const Graph& graph :
       {masked_attention_graph(2, "-inf"), masked_attention_graph(3, "-100.0")})
    EXPECT_THAT(after("name_attention", graph), Not(HasSubstr("attention")));
}

TEST(NameAttention, ScalesQueriesWhereTheScaleIsAnother) {
  const std::string named = after("name_attention", attention_graph("* 0.25"));
  EXPECT_THAT(named, HasSubstr(unary_line("q.scaled", "q", "2, 5, 4", "a=2, b=5, c=4",
                                          "in0[a, b, c] * 0.5")));
  EXPECT_THAT(named, HasSubstr("y = attention(q.scaled, kr.rows, v) b=2 m=5 n=7 d=4 f32 fast"));
}

TEST(NameAttention, ScalesQueriesWhereNothingScalesTheScores) {
  const Graph graph = graph_from(
      "input q: f32[2, 5, 4]\ninput k: f32[2, 7, 4]\ninput v: f32[2, 7, 4]\n" +
      unary_line("kt", "k", "2, 7, 4", "a=2, b=4, c=7", "in0[a, c, b]") +
      "s = batch_matmul(q, kt) b=2 m=5 n=7 k=4 f32 fast\n" +
      reshape_line("sr", "s", {2, 5, 7}, {10, 7}) + "p = softmax(sr) rows=10 cols=7 f32 fast\n" +
      reshape_line("pr", "p", {10, 7}, {2, 5, 7}) +
      "y = batch_matmul(pr, v) b=2 m=5 n=4 k=7 f32 fast\noutput y\n");
  EXPECT_EQ(after("name_attention", graph),
            unary_line("q.scaled", "q", "2, 5, 4", "a=2, b=5, c=4", "in0[a, b, c] * 2.0") +
                "y = attention(q.scaled, k, v) b=2 m=5 n=7 d=4 f32 fast\n");
}

TEST(NameAttention, LeavesScoresThatAreNegated) {
  EXPECT_THAT(after("name_attention", attention_graph("* -0.5")), Not(HasSubstr("attention")));
}

}  // namespace
}  // namespace tw::graph
