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

using ::testing::HasSubstr;

/// Returns a graph with the product y = t w in f16. One operator writes x, and another transposes x
/// to t.
Graph half_product(int64_t rows, const std::string& outputs = "output y\n") {
  dsl::Array w = dsl::Array::make(Float16, {6, 9}).value();
  Random random(3);
  dsl::fill_normal(w, random);
  return graph_from(
      fmt::format("input a: f16[6, {0}]\n"
                  "x = expr(a) fast input in0: f16[6, {0}]; out: f16[a=6, b={0}] = "
                  "f16(f32(in0[a, b]) * 0.3)\n"
                  "t = expr(x) fast input in0: f16[6, {0}]; out: f16[a={0}, b=6] = in0[b, a]\n"
                  "y = expr(t, w) fast input in0: f16[{0}, 6]; input in1: f16[6, 9]; "
                  "s: f32[a={0}, b=9] = sum(k=6) f32(in0[a, k]) * f32(in1[k, b]); "
                  "out: f16[a={0}, b=9] = f16(s[a, b])\n",
                  rows) +
          outputs,
      {{"w", make_constant(std::move(w))}});
}

TEST(WidenFactors, ConvertsWhatProductsReadWhereItIsWritten) {
  const Graph wide = applied("widen_factors", half_product(8));
  EXPECT_EQ(operators_of(wide),
            "x = expr(a) fast input in0: f16[6, 8]; out: f32[a=6, b=8] = f32(f16(f32(in0[a, b]) * "
            "0.3))\n"
            "t = expr(x) fast input in0: f32[6, 8]; out: f32[a=8, b=6] = in0[b, a]\n"
            "y = expr(t, w.wide) fast input in0: f32[8, 6]; weight in1: f32[6, 9]; t0: f32[a=8, "
            "b=9] = sum(r0=6) in0[a, r0] * in1[r0, b]; out: f16[a=8, b=9] = f16(t0[a, b])\n");
  EXPECT_FALSE(wide.constants.contains("w"));
}

// A product of two rows mostly waits for its weights from memory, so that the weights stay narrow.
// Each element of the left factor is read nine times, so that this factor is widened.
TEST(WidenFactors, LeavesWeightsThatFewRowsRead) {
  const Graph wide = applied("widen_factors", half_product(2));
  EXPECT_TRUE(wide.constants.contains("w"));
  EXPECT_THAT(operators_of(wide), HasSubstr("y = expr(t, w) fast input in0: f32[2, 6]"));
}

TEST(WidenFactors, LeavesOutputsOfTheGraph) {
  const Graph wide = applied("widen_factors", half_product(8, "output y, t\n"));
  EXPECT_THAT(operators_of(wide), HasSubstr("y = expr(t, w.wide) fast input in0: f16[8, 6]"));
}

// A number of bf16 need not be a number of f16: converting it rounds it, and may overflow.
TEST(WidenFactors, KeepsRoundingsToTheOtherTypeOf16Bits) {
  const Graph graph = graph_from(
      "input h: bf16[8]\ninput w: f32[8, 9]\n"
      "x = expr(h) fast input in0: bf16[8]; out: bf16[a=8] = bf16(f32(in0[a]) * 1e6)\n"
      "y = expr(x, w) fast input in0: bf16[8]; input in1: f32[8, 9]; out: f32[a=9] = sum(k=8) "
      "f32(f16(f32(in0[k]))) * f32(in0[k]) * in1[k, a]\noutput y\n");
  EXPECT_THAT(operators_of(pass_of("widen_factors").apply(graph, {}).value()),
              HasSubstr("f32(f16(in0[r0])) * in0[r0] * in1[r0, a]"));
}

// The tensors are concatenated with a tensor that stays narrow, and then padded.
TEST(WidenFactors, GoesThroughChoicesBetweenElements) {
  const Graph graph = graph_from(
      "input a: f16[5]\ninput b: f16[3]\ninput w: f32[8, 9]\n"
      "x = expr(a) fast input in0: f16[5]; out: f16[a=5] = f16(f32(in0[a]) * 0.3)\n"
      "c = expr(x, b) fast input in0: f16[5]; input in1: f16[3]; out: f16[a=8] = "
      "select(a < 5, in0[a], in1[a - 5])\n"
      "y = expr(c, w) fast input in0: f16[8]; input in1: f32[8, 9]; out: f32[a=9] = "
      "sum(k=8) f32(select(k < 6, in0[k], 0.5f16)) * in1[k, a]\noutput y\n");
  const std::string wide = after("widen_factors", graph);
  EXPECT_THAT(wide, HasSubstr("f32[a=8] = select(a < 5, in0[a], f32(in1[a - 5]))"));
  EXPECT_THAT(wide, HasSubstr("select(r0 < 6, in0[r0], 0.5) * in1[r0, a]"));
}

TEST(WidenFactors, KeepsRoundingsOfOtherNumbers) {
  const Graph graph = graph_from(
      "input a: f32[8]\ninput h: f16[8]\ninput w: f32[8, 9]\n"
      "x = expr(h) fast input in0: f16[8]; out: f16[a=8] = f16(f32(in0[a]) * 0.3)\n"
      "y = expr(x, a, w) fast input in0: f16[8]; input in1: f32[8]; input in2: f32[8, 9]; "
      "out: f32[a=9] = sum(k=8) f32(in0[k]) * f32(f16(in1[k])) * in2[k, a]\noutput y\n");
  EXPECT_THAT(after("widen_factors", graph), HasSubstr("in0[r0] * f32(f16(in1[r0])) * in2[r0, a]"));
}

/// Returns a graph with z = 2 x w + x[:, 0], where another operator writes x.
Graph product_behind_another_operator(int64_t rows, int64_t inner, int64_t columns,
                                      const std::string& outputs = "output z\n") {
  return graph_from(
      fmt::format("input a: f32[{0}, {1}]\n"
                  "x = expr(a) fast input in0: f32[{0}, {1}]; out: f32[a={0}, b={1}] = "
                  "in0[a, b] * 0.5\n"
                  "y = expr(x, w) fast input in0: f32[{0}, {1}]; weight in1: f32[{1}, {2}]; "
                  "s: f32[a={0}, b={2}] = sum(k={1}) in0[a, k] * in1[k, b]; "
                  "out: f32[a={0}, b={2}] = s[a, b] * 2.0\n"
                  "z = expr(y, x) fast input in0: f32[{0}, {2}]; input in1: f32[{0}, {1}]; "
                  "out: f32[a={0}, b={2}] = in0[a, b] + in1[a, 0]\n",
                  rows, inner, columns) +
          outputs,
      {{"w", normal_constant({inner, columns})}});
}

TEST(RoundFactors, RoundsBothFactorsWhereTheTargetMultipliesThem) {
  const Graph graph = rounded(product_behind_another_operator(8, 4, 6), true);
  EXPECT_EQ(operators_of(graph),
            "x = expr(a) fast input in0: f32[8, 4]; out: bf16[a=8, b=4] = bf16(in0[a, b] * 0.5)\n"
            "y = expr(x, w.rounded) fast input in0: bf16[8, 4]; weight in1: bf16[4, 6]; "
            "t0: f32[a=8, b=6] = sum(r0=4) f32(in0[a, r0]) * f32(in1[r0, b]); "
            "out: f32[a=8, b=6] = t0[a, b] * 2.0\n"
            "z = expr(y, x) fast input in0: f32[8, 6]; input in1: bf16[8, 4]; "
            "out: f32[a=8, b=6] = in0[a, b] + f32(in1[a, 0])\n");
  EXPECT_FALSE(graph.constants.contains("w"));
  EXPECT_EQ(graph.constants.at("w.rounded").array->type, BFloat16);
}

TEST(RoundFactors, CopiesInputsAndOutputsOfTheGraph) {
  const std::string text =
      operators_of(rounded(product_behind_another_operator(8, 4, 6, "output z, x\n"), true));
  EXPECT_THAT(text, HasSubstr("x = expr(a) fast input in0: f32[8, 4]; out: f32[a=8, b=4]"));
  EXPECT_THAT(text, HasSubstr("x.rounded = expr(x) fast input in0: f32[8, 4]; "
                              "out: bf16[a=8, b=4] = bf16(in0[a, b])"));
  EXPECT_THAT(text, HasSubstr("y = expr(x.rounded, w.rounded)"));
  EXPECT_THAT(text, HasSubstr("z = expr(y, x) fast input in0: f32[8, 6]; input in1: f32[8, 4]"));
  const Graph product = graph_from(
      "input x: f32[8, 4]\n"
      "y = expr(x, w) fast input in0: f32[8, 4]; weight in1: f32[4, 6]; "
      "out: f32[a=8, b=6] = sum(k=4) in0[a, k] * in1[k, b]\noutput y\n",
      {{"w", normal_constant({4, 6})}});
  EXPECT_THAT(operators_of(rounded(product, true)), HasSubstr("x.rounded = expr(x)"));
}

// Instructions sum pairs of products, so that the number of terms must be even. Their lanes are
// along the weights' columns, of which there must be several.
TEST(RoundFactors, LeavesWhatNoInstructionComputes) {
  const auto expect_unchanged = [](const Graph& graph) {
    EXPECT_EQ(operators_of(rounded(graph, true)), operators_of(graph));
  };
  expect_unchanged(product_behind_another_operator(8, 5, 6));
  expect_unchanged(product_behind_another_operator(8, 4, 1));
  expect_unchanged(graph_from(  // a convolution of each channel by itself
      "input a: f32[6, 8]\n"
      "y = expr(a, w) fast input in0: f32[6, 8]; weight in1: f32[6, 2]; "
      "out: f32[a=6, b=7] = sum(k=2) in0[a, b + k] * in1[a, k]\noutput y\n",
      {{"w", normal_constant({6, 2})}}));
  const std::string strict =
      "input x: f32[8, 4]\ny = expr(x, w) strict input in0: f32[8, 4]; weight in1: f32[4, 6]; "
      "out: f32[a=8, b=6] = sum(k=4) in0[a, k] * in1[k, b]\noutput y\n";
  expect_unchanged(graph_from(strict, {{"w", normal_constant({4, 6})}}));
}

TEST(RoundFactors, RoundsWhatWaitsForMemoryOnAnyTarget) {
  const Graph one_row = rounded(product_behind_another_operator(1, 256, 256), false);
  EXPECT_THAT(operators_of(one_row),
              HasSubstr("y = expr(x, w.rounded) fast input in0: f32[1, 256]; "
                        "weight in1: bf16[256, 256]"));
  for (const Graph& graph :
       {product_behind_another_operator(8, 256, 256), product_behind_another_operator(1, 256, 128)})
    EXPECT_EQ(operators_of(rounded(graph, false)), operators_of(graph));
}

// Tensor tiles multiply paddings of 16 bits, so that the padding is rounded, too.
TEST(RoundFactors, PadsNumbersOf16Bits) {
  const Graph graph = graph_from(
      "input a: f32[1, 4, 5, 5]\n"
      "x = expr(a) fast input in0: f32[1, 4, 5, 5]; out: f32[a=1, b=4, c=5, d=5] = "
      "in0[a, b, c, d] * 0.5\n"
      "y = conv2d(x, w) n=1 c=4 h=5 w=5 k=6 r=3 s=3 pad=1 f32 fast\noutput y\n",
      {{"w", normal_constant({6, 4, 3, 3})}});
  EXPECT_THAT(operators_of(rounded(graph, true)), HasSubstr(", 0.0bf16)) * f32(in1["));
}

// An instruction sums neighbouring terms. Elements of a window with a stride are no such
// neighbours, so that rounding the image of a patch embedding would only cost a copy.
TEST(RoundFactors, LeavesReductionsWithoutNeighbours) {
  const Graph graph = graph_from(
      "input a: f32[3, 32]\n"
      "y = expr(a, w) fast input in0: f32[3, 32]; weight in1: f32[6, 3, 8]; "
      "out: f32[a=6, b=4] = sum(c=3, r=8) in0[c, b * 8 + r] * in1[a, c, r]\noutput y\n",
      {{"w", normal_constant({6, 3, 8})}});
  EXPECT_EQ(operators_of(rounded(graph, true)), operators_of(graph));
}

// x has another reader, which needs f32: a product of two activations, or a strict operator. If x
// itself were rounded, that reader would have to convert it back. So only a copy of x is rounded.
TEST(RoundFactors, CopiesWhatOtherReadersNeedInF32) {
  const std::string product =
      "input a: f32[8, 4]\ninput b: f32[4, 64]\n"
      "x = expr(a) fast input in0: f32[8, 4]; out: f32[a=8, b=4] = in0[a, b] * 0.5\n"
      "y = expr(x, w) fast input in0: f32[8, 4]; weight in1: f32[4, 6]; "
      "out: f32[a=8, b=6] = sum(k=4) in0[a, k] * in1[k, b]\n";
  const std::string others[] = {
      "z = expr(x, b) fast input in0: f32[8, 4]; input in1: f32[4, 64]; "
      "out: f32[a=8, b=64] = sum(k=4) in0[a, k] * in1[k, b]\n",
      "z = expr(x) strict input in0: f32[8, 4]; out: f32[a=8, b=4] = exp(in0[a, b])\n"};
  for (const std::string& other : others) {
    const Graph graph =
        graph_from(product + other + "output y, z\n", {{"w", normal_constant({4, 6})}});
    const std::string text = operators_of(rounded(graph, true));
    EXPECT_THAT(text, HasSubstr("x.rounded = expr(x)"));
    EXPECT_THAT(text, HasSubstr("y = expr(x.rounded, w.rounded)"));
    EXPECT_THAT(text, HasSubstr(other.substr(0, 40)));
  }
}

// x is rounded since a product reads it. v, which is only concatenated with x, is not.
TEST(RoundFactors, LeavesWhatIsMovedToWideTensors) {
  const Graph graph = graph_from(
      "input a: f32[4]\ninput u: f32[4]\n"
      "x = expr(a) fast input in0: f32[4]; out: f32[a=4] = in0[a] * 0.5\n"
      "v = expr(u) fast input in0: f32[4]; out: f32[a=4] = in0[a] * 0.3\n"
      "y = expr(x, w) fast input in0: f32[4]; weight in1: f32[4, 6]; "
      "out: f32[a=6] = sum(k=4) in0[k] * in1[k, a]\n"
      "c = expr(x, v) fast input in0: f32[4]; input in1: f32[4]; out: f32[a=8] = "
      "select(a < 4, in0[min(a, 3)], in1[max(a - 4, 0)])\n"
      "z = expr(c) fast input in0: f32[8]; out: f32[a=8] = exp(in0[a])\noutput y, z\n",
      {{"w", normal_constant({4, 6})}});
  const std::string text = operators_of(rounded(graph, true));
  EXPECT_THAT(text, HasSubstr("out: bf16[a=4] = bf16(in0[a] * 0.5)"));
  EXPECT_THAT(text, HasSubstr("v = expr(u) fast input in0: f32[4]; out: f32[a=4]"));
  EXPECT_THAT(text, HasSubstr("z = expr(c) fast input in0: f32[8]"));
}

TEST(RoundFactors, KeepsWhatRandomGraphsCompute) {
  for (uint64_t seed = 1; seed <= 40; ++seed)
    rounded(RandomGraph(seed).make(4 + static_cast<int>(seed % 16)), true);
}

TEST(RoundFactors, MovesNumbersOf16Bits) {
  const Graph graph = graph_from(
      "input a: f32[8, 4]\n"
      "x = expr(a) fast input in0: f32[8, 4]; out: f32[a=8, b=4] = in0[a, b] * 0.5\n"
      "t = expr(x) fast input in0: f32[8, 4]; out: f32[a=4, b=9] = "
      "select(b < 8, in0[min(b, 7), a], 0.0)\n"
      "y = expr(t, w) fast input in0: f32[4, 9]; weight in1: f32[4, 6]; "
      "out: f32[a=9, b=6] = sum(k=4) in0[k, a] * in1[k, b]\noutput y\n",
      {{"w", normal_constant({4, 6})}});
  const std::string text = operators_of(rounded(graph, true));
  EXPECT_THAT(text, HasSubstr("out: bf16[a=8, b=4] = bf16(in0[a, b] * 0.5)"));
  EXPECT_THAT(text, HasSubstr("select(b < 8, in0[min(b, 7), a], 0.0bf16)"));
}

TEST(RoundFactors, AddsAStageBehindAReduction) {
  const Graph graph = graph_from(
      "input a: f32[8, 4]\n"
      "x = expr(a, w) fast input in0: f32[8, 4]; weight in1: f32[4, 4]; "
      "out: f32[a=8, b=4] = sum(k=4) in0[a, k] * in1[k, b]\n"
      "y = expr(x, w) fast input in0: f32[8, 4]; weight in1: f32[4, 4]; "
      "out: f32[a=8, b=4] = sum(k=4) in0[a, k] * in1[k, b]\noutput y\n",
      {{"w", normal_constant({4, 4})}});
  EXPECT_THAT(operators_of(rounded(graph, true)),
              HasSubstr("x = expr(a.rounded, w.rounded) fast input in0: bf16[8, 4]; weight in1: "
                        "bf16[4, 4]; t0: f32[a=8, b=4] = sum(r0=4) f32(in0[a, r0]) * "
                        "f32(in1[r0, b]); out: bf16[a=8, b=4] = bf16(t0[a, b])\n"));
}

TEST(RoundFactors, LeavesWeightsThatWouldOverflow) {
  dsl::Array weights = dsl::Array::make(Float32, {4, 6}).value();
  weights.set_float(5, 3.4e38);
  const Graph graph = graph_from(
      "input x: f32[8, 4]\ny = expr(x, w) fast input in0: f32[8, 4]; weight in1: f32[4, 6]; "
      "out: f32[a=8, b=6] = sum(k=4) in0[a, k] * in1[k, b]\noutput y\n",
      {{"w", make_constant(std::move(weights))}});
  EXPECT_EQ(operators_of(rounded(graph, true)), operators_of(graph));
}

TEST(RoundFactors, NeedsAPrecision) {
  const Graph graph = product_behind_another_operator(1, 256, 256);
  EXPECT_EQ(after("round_factors", graph), operators_of(graph));
}

TEST(WidenFactors, LeavesFactorsOfDotProducts) {
  const auto widened = [](const std::string& product, std::set<DType> multiplied) {
    dsl::Array weights = dsl::Array::make(BFloat16, {6, 8}).value();
    const Graph graph = graph_from(
        "input a: bf16[8, 8]\n"
        "x = expr(a) fast input in0: bf16[8, 8]; out: bf16[a=8, b=8] = bf16(f32(in0[a, b]) * "
        "0.3)\n"
        "y = expr(x, w) fast input in0: bf16[8, 8]; weight in1: bf16[6, 8]; " +
            product + "\noutput y\n",
        {{"w", make_constant(std::move(weights))}});
    const auto passed =
        pass_of("widen_factors").apply(graph, {.multiplied = std::move(multiplied)});
    EXPECT_TRUE(passed);
    return operators_of(*passed) != operators_of(graph);
  };
  const std::string dense = "out: f32[a=8, b=6] = sum(k=8) f32(in0[a, k]) * f32(in1[b, k])";
  const std::string depthwise = "out: f32[a=6, b=8] = sum(k=8) f32(in0[a, k]) * f32(in1[a, k])";
  EXPECT_TRUE(widened(dense, {}));
  EXPECT_TRUE(widened(dense, {Float16}));
  EXPECT_FALSE(widened(dense, {BFloat16}));
  EXPECT_TRUE(widened(depthwise, {BFloat16}));
}

Constant integer_constant(DType type, std::vector<int64_t> shape, std::vector<int64_t> values) {
  dsl::Array array = dsl::Array::make(type, std::move(shape)).value();
  for (size_t i = 0; i < values.size(); ++i) array.set_int(static_cast<int64_t>(i), values[i]);
  return make_constant(std::move(array));
}

Constant special_integers(DType type, std::vector<int64_t> shape) {
  Random random(3);
  dsl::Array array = dsl::Array::make(type, std::move(shape)).value();
  dsl::fill_special(array, random);
  return make_constant(std::move(array));
}

/// Returns the constants for a quantized image of 4 channels, and weights with a scale for each of
/// 4 channels.
std::map<std::string, Constant> quantized_weights() {
  return {{"z", integer_constant(UInt8, {}, {3})},
          {"s", normal_constant({})},
          {"wq", special_integers(Int8, {4, 4, 3, 3})},
          {"v", special_integers(Int8, {6, 4})},
          {"ws", normal_constant({4})}};
}

/// Returns the line of a convolution with weights that are a tensor, not a constant.
std::string convolution(const std::string& out, const std::string& in, const std::string& w) {
  return fmt::format(
      "{} = expr({}, {}) fast input in0: f32[1, 4, 6, 6]; input in1: f32[4, 4, 3, 3]; out: "
      "f32[a=1, "
      "b=4, c=6, d=6] = sum(e=4, f=3, g=3) select(0 <= c + f - 1 && c + f - 1 < 6 && 0 <= d + g - "
      "1 && d + g - 1 < 6, in0[a, e, c + f - 1, d + g - 1], 0.0) * in1[b, e, f, g]\n",
      out, in, w);
}

TEST(NarrowProducts, ConvolutionsOfDequantizedNumbersSumIntegers) {
  const Graph graph =
      graph_from("input q: u8[1, 4, 6, 6]\n" + dequantized_image + dequantized_weights +
                     convolution("y", "a", "w") + "output y\n",
                 quantized_weights());
  const Graph narrow = applied("narrow_products", graph);
  const std::string lines = operators_of(narrow);
  EXPECT_EQ(narrow.operators.size(), 2u) << lines;
  EXPECT_THAT(lines, HasSubstr("q.centered = expr(q)"));
  EXPECT_THAT(lines, HasSubstr("y = expr(q.centered, wq.narrow, y.scale)"));
  EXPECT_THAT(lines, HasSubstr("input in0: i16[1, 4, 6, 6]; weight in1: i8[4, 4, 3, 3]; "
                               "weight in2: f32[4]; t0: i32["));
}

// Weights are constants with a scale for each row, and the product reads their transpose.
TEST(NarrowProducts, ProductsReadTransposedWeights) {
  const Graph graph = graph_from(
      "input q: i8[6, 4]\n"
      "a = expr(q, s) fast input in0: i8[6, 4]; weight in1: f32[]; out: f32[a=6, b=4] = "
      "f32(i32(in0[a, b])) * in1[]\n"
      "v = expr(wq, wz, ws) fast weight in0: i8[8, 4]; weight in1: i8[8]; weight in2: f32[8]; out: "
      "f32[a=8, b=4] = f32(i32(in0[a, b]) - i32(in1[a])) * in2[a]\n"
      "w = expr(v) fast input in0: f32[8, 4]; out: f32[a=4, b=8] = in0[b, a]\n"
      "y = expr(a, w, bias) fast input in0: f32[6, 4]; input in1: f32[4, 8]; weight in2: f32[8]; "
      "t0: f32[a=6, b=8] = sum(c=4) in0[a, c] * in1[c, b]; out: f32[a=6, b=8] = max(t0[a, b] + "
      "in2[b], 0.0)\noutput y\n",
      {{"s", normal_constant({})},
       {"wq", special_integers(Int8, {8, 4})},
       {"wz", special_integers(Int8, {8})},
       {"ws", normal_constant({8})},
       {"bias", normal_constant({8})}});
  const std::string lines = after("narrow_products", graph);
  EXPECT_THAT(lines, HasSubstr("y = expr(q.centered, wq.narrow, y.scale, bias)"));
  EXPECT_THAT(lines, HasSubstr("weight in1: i16[4, 8]"));
}

// Other operators that dequantize the image read its centered form, too. Reshapes may be between
// them.
TEST(NarrowProducts, OtherReadersShareWhatIsCentered) {
  const Graph graph = graph_from(
      "input q: u8[1, 6, 4]\n"
      "a = expr(q, z, s) fast input in0: u8[1, 6, 4]; weight in1: u8[]; weight in2: f32[]; out: "
      "f32[a=1, b=6, c=4] = f32(i32(in0[a, b, c]) - i32(in1[])) * in2[]\n" +
          reshape_line("r", "a", {1, 6, 4}, {6, 4}) +
          "w = expr(wq, ws) fast weight in0: i8[4, 4]; weight in1: f32[4]; out: f32[a=4, b=4] = "
          "f32(i32(in0[a, b])) * in1[b]\n"
          "c = expr(r, w) fast input in0: f32[6, 4]; input in1: f32[4, 4]; out: f32[a=6, b=4] = "
          "sum(c=4) in0[a, c] * in1[c, b]\n"
          "y = expr(c, a) fast input in0: f32[6, 4]; input in1: f32[1, 6, 4]; out: f32[a=1, b=6, "
          "c=4] = "
          "in0[b, c] + in1[a, b, c]\noutput y\n",
      {{"z", integer_constant(UInt8, {}, {3})},
       {"s", normal_constant({})},
       {"wq", special_integers(Int8, {4, 4})},
       {"ws", normal_constant({4})}});
  const std::string lines = after("narrow_products", graph);
  EXPECT_THAT(lines, HasSubstr("c = expr(r.centered, wq.narrow, c.scale)"));
  EXPECT_THAT(lines, HasSubstr("r.centered = expr(q.centered)"));
  EXPECT_THAT(lines, HasSubstr("a = expr(q.centered) fast input in0: i16[1, 6, 4]"));
}

TEST(NarrowProducts, LeavesOtherProducts) {
  const auto left = [&](const std::string& operators, const std::string& inputs) {
    const Graph graph = graph_from(inputs + operators + "output y\n", quantized_weights());
    EXPECT_EQ(after("narrow_products", graph), operators_of(graph));
  };
  const std::string quantized_image = "input q: u8[1, 4, 6, 6]\n";
  // The weights are not dequantized from integers.
  left(dequantized_image + convolution("y", "a", "u"),
       quantized_image + "input u: f32[4, 4, 3, 3]\n");
  // The scales of the weights differ along the sum.
  const std::string by_input =
      "w = expr(wq, ws) fast weight in0: i8[4, 4, 3, 3]; weight in1: f32[4]; out: f32[a=4, b=4, "
      "c=3, d=3] = f32(i32(in0[a, b, c, d])) * in1[b]\n";
  left(dequantized_image + by_input + convolution("y", "a", "w"), quantized_image);
  // Both factors are activations.
  left(
      "a = expr(q) fast input in0: u8[6, 6]; out: f32[a=6, b=6] = f32(i32(in0[a, b])) * 0.5\n"
      "b = expr(p) fast input in0: u8[6, 6]; out: f32[a=6, b=6] = f32(i32(in0[a, b])) * 0.5\n"
      "y = expr(a, b) fast input in0: f32[6, 6]; input in1: f32[6, 6]; out: f32[a=6, b=6] = "
      "sum(c=6) in0[a, c] * in1[c, b]\n",
      "input p: u8[6, 6]\ninput q: u8[6, 6]\n");
  // The result would have scales along both of its axes.
  left(
      "a = expr(q, ws) fast input in0: u8[4, 6]; weight in1: f32[4]; out: f32[a=4, b=6] = "
      "f32(i32(in0[a, b])) * in1[a]\n"
      "w = expr(v, ws) fast weight in0: i8[6, 4]; weight in1: f32[4]; out: f32[a=6, b=4] = "
      "f32(i32(in0[a, b])) * in1[b]\n"
      "y = expr(a, w) fast input in0: f32[4, 6]; input in1: f32[6, 4]; out: f32[a=4, b=4] = "
      "sum(c=6) in0[a, c] * in1[c, b]\n",
      "input q: u8[4, 6]\n");
  // The zero point needs more than 16 bits.
  left(
      "a = expr(q) fast input in0: u8[4, 6]; out: f32[a=4, b=6] = f32(i32(in0[a, b]) - 40000i32) * "
      "0.5\n"
      "w = expr(v) fast weight in0: i8[6, 4]; out: f32[a=6, b=4] = f32(i32(in0[a, b])) * 0.5\n"
      "y = expr(a, w) fast input in0: f32[4, 6]; input in1: f32[6, 4]; out: f32[a=4, b=4] = "
      "sum(c=6) in0[a, c] * in1[c, b]\n",
      "input q: u8[4, 6]\n");
  // The padding is 1, not 0.
  std::string padded = convolution("y", "a", "w");
  padded.replace(padded.find("0.0)"), 4, "1.0)");
  left(dequantized_image + dequantized_weights + padded, quantized_image);
  // The operators have the accuracy class strict.
  std::string strict = dequantized_image + dequantized_weights + convolution("y", "a", "w");
  for (size_t at = 0; (at = strict.find(" fast ", at)) != std::string::npos;)
    strict.replace(at, 6, " strict ");
  left(strict, quantized_image);
  // The scale is not a constant.
  left(
      "a = expr(q, t) fast input in0: u8[1, 4, 6, 6]; input in1: f32[]; out: f32[a=1, b=4, c=6, "
      "d=6] = f32(i32(in0[a, b, c, d])) * in1[]\n" +
          dequantized_weights + convolution("y", "a", "w"),
      quantized_image + "input t: f32[]\n");
}

// 255 * 128 * 70,000 is too large for 32 bits.
TEST(NarrowProducts, SumsFit32Bits) {
  const auto product = [](int64_t terms) {
    const std::string n = std::to_string(terms);
    return graph_from("input q: u8[2, " + n + "]\n" + "a = expr(q) fast input in0: u8[2, " + n +
                          "]; out: f32[a=2, b=" + n + "] = f32(i32(in0[a, b])) * 0.5\n" +
                          "w = expr(v) fast weight in0: i8[" + n + ", 2]; out: f32[a=" + n +
                          ", b=2] = f32(i32(in0[a, b])) * 0.5\n" +
                          "y = expr(a, w) fast input in0: f32[2, " + n + "]; input in1: f32[" + n +
                          ", 2]; out: f32[a=2, b=2] = sum(c=" + n +
                          ") in0[a, c] * in1[c, b]\noutput y\n",
                      {{"v", special_integers(Int8, {terms, 2})}});
  };
  EXPECT_THAT(after("narrow_products", product(60'000)), HasSubstr("i32(in0["));
  EXPECT_EQ(after("narrow_products", product(70'000)), operators_of(product(70'000)));
}

// The quantized image and its dequantized form are outputs of the graph, too.
TEST(NarrowProducts, OutputsStay) {
  const Graph graph = graph_from(
      "input x: f32[1, 4, 6, 6]\n" +
          fmt::format("q = expr(x) fast input in0: f32[{}]; out: u8[{}] = "
                      "u8(clamp(round(in0[a, b, c, d] * 50.0) + 3.0, "
                      "0.0, 255.0))\n",
                      image_shape, image_axes) +
          dequantized_image + dequantized_weights + convolution("y", "a", "w") + "output y, q, a\n",
      quantized_weights());
  EXPECT_THAT(after("narrow_products", graph),
              HasSubstr("y = expr(q.centered, wq.narrow, y.scale)"));
}

/// Returns the operators of a graph after narrow_factors, for a target that multiplies data of this
/// 8-bit type by weights of i8. Checks that outputs stay the same on inputs that have the least and
/// the largest numbers.
std::string in_bytes(const Graph& graph, DType type = UInt8) {
  const auto narrow = pass_of("narrow_factors").apply(graph, {.multiplied = {type}});
  EXPECT_TRUE(narrow) << narrow.error().message;
  if (!narrow) return "";
  Random random(5);
  dsl::Arrays inputs;
  for (const Port& input : graph.inputs) {
    inputs.emplace(input.name, dsl::Array::make(input.type.dtype, input.type.shape).value());
    dsl::fill_special(inputs.at(input.name), random);
  }
  const auto before = interpret(graph, inputs), after = interpret(*narrow, inputs);
  EXPECT_TRUE(before) << before.error().message;
  EXPECT_TRUE(after) << after.error().message;
  if (!before || !after) return "";
  for (const std::string& output : graph.outputs)
    EXPECT_EQ(before->at(output).data, after->at(output).data);
  return operators_of(*narrow);
}

/// Returns the line of t = i16(i32(q) - zero) for 6 x 8 numbers.
std::string centered_line(const std::string& zero, const std::string& type = "u8") {
  return fmt::format(
      "t = expr(q, {0}) fast input in0: {1}[6, 8]; input in1: {1}[]; out: i16[a=6, b=8] = "
      "i16(i32(in0[a, b]) - i32(in1[]))\n",
      zero, type);
}

std::map<std::string, Constant> weights_and_zeros() {
  return {{"w", special_integers(Int8, {8, 4})},
          {"z", integer_constant(UInt8, {}, {3})},
          {"zs", integer_constant(Int8, {}, {-3})}};
}

Graph product_of(const std::string& operators, const std::string& inputs = "input q: u8[6, 8]\n",
                 const std::string& outputs = "output y\n") {
  std::map<std::string, Constant> constants = weights_and_zeros();
  std::erase_if(constants, [&](const auto& constant) {
    return operators.find(", " + constant.first + ")") == std::string::npos;
  });
  return graph_from(inputs + operators + outputs, constants);
}

TEST(NarrowFactors, NumbersWithoutAZeroPointAreReadAsTheyAre) {
  EXPECT_EQ(in_bytes(product_of(uncentered_line + product_of_centered)),
            "y = expr(q, w) fast input in0: u8[6, 8]; weight in1: i8[8, 4]; out: i32[a=6, b=4] = "
            "sum(r0=8) i32(in0[a, r0]) * i32(in1[r0, b])\n");
}

TEST(NarrowFactors, TheZeroPointIsSubtractedFromTheSum) {
  EXPECT_EQ(in_bytes(product_of(centered_line("z") + product_of_centered)),
            "y = expr(q, w, w.sums) fast input in0: u8[6, 8]; weight in1: i8[8, 4]; weight in2: "
            "i32[4]; t0: i32[a=6, b=4] = sum(r0=8) i32(in0[a, r0]) * i32(in1[r0, b]); out: "
            "i32[a=6, b=4] = t0[a, b] - in2[b]\n");
  // The zero point may also be data.
  EXPECT_THAT(in_bytes(product_of(centered_line("zero") + product_of_centered,
                                  "input q: u8[6, 8]\ninput zero: u8[]\n")),
              HasSubstr("out: i32[a=6, b=4] = t0[a, b] - i32(in2[]) * in3[b]"));
}

TEST(NarrowFactors, TheZeroPointMayBeALiteral) {
  std::string literal = uncentered_line;
  literal.insert(literal.rfind(")"), " - 128i32");
  EXPECT_THAT(in_bytes(product_of(literal + product_of_centered)),
              HasSubstr("out: i32[a=6, b=4] = t0[a, b] - in2[b]"));
}

// An instruction multiplies either u8 or i8 by i8. Numbers of the other type are shifted by 128.
TEST(NarrowFactors, NumbersOfTheOtherSignAreMoved) {
  const Graph graph =
      product_of(centered_line("zs", "i8") + product_of_centered, "input q: i8[6, 8]\n");
  const std::string moved = in_bytes(graph);
  EXPECT_THAT(moved, HasSubstr("t = expr(q) fast input in0: i8[6, 8]; out: u8[a=6, b=8] = "
                               "u8(i32(in0[a, b]) + 128i32)"));
  EXPECT_THAT(moved, HasSubstr("t0[a, b] - in2[b]"));
  EXPECT_THAT(in_bytes(graph, Int8), HasSubstr("y = expr(q, w, w.sums)"));
  EXPECT_THAT(in_bytes(product_of(centered_line("z") + product_of_centered), Int8),
              HasSubstr("u8[6, 8]; out: i8[a=6, b=8] = i8(i32(in0[a, b]) + -128i32)"));
}

TEST(NarrowFactors, OtherReadersSubtractTheZeroPointThemselves) {
  const std::string operators = in_bytes(product_of(
      centered_line("z") + product_of_centered + reshape_line("r", "t", {6, 8}, {48}, Int16) +
          "f = expr(r) fast input in0: i16[48]; out: f32[a=48] = f32(i32(in0[a])) * 0.5\n",
      "input q: u8[6, 8]\n", "output y, f\n"));
  EXPECT_THAT(operators, HasSubstr("r = expr(q) fast input in0: u8[6, 8]; out: u8[a=48]"));
  EXPECT_THAT(operators, HasSubstr("f32(i32(in0[a]) - 3i32) * 0.5"));
}

/// Returns a graph with a padded convolution of numbers, from which `zero` is subtracted unless it
/// is "".
Graph padded_convolution(const std::string& zero) {
  const bool has_zero = !zero.empty();
  std::map<std::string, Constant> constants = {{"w", special_integers(Int8, {4, 4, 3, 3})}};
  if (has_zero) constants.emplace("z", integer_constant(UInt8, {}, {3}));
  return graph_from(
      fmt::format("input q: u8[1, 4, 6, 6]\n"
                  "t = expr(q{}) fast input in0: u8[1, 4, 6, 6]; {}out: i16[a=1, b=4, c=6, d=6] = "
                  "i16(i32(in0[a, b, c, d]){})\n",
                  has_zero ? ", z" : "", has_zero ? "weight in1: u8[]; " : "",
                  has_zero ? " - i32(in1[])" : "") +
          "y = expr(t, w) fast input in0: i16[1, 4, 6, 6]; weight in1: i8[4, 4, 3, 3]; out: "
          "i32[a=1, b=4, c=6, d=6] = sum(e=4, f=3, g=3) i32(select(0 <= c + f - 1 && c + f - 1 < 6 "
          "&& 0 <= d + g - 1 && d + g - 1 < 6, in0[a, e, c + f - 1, d + g - 1], 0i16)) * "
          "i32(in1[b, e, f, g])\noutput y\n",
      constants);
}

TEST(NarrowFactors, EachSumOfAnOperatorSubtractsItsOwn) {
  const Graph graph = graph_from(
      "input q: u8[6, 8]\n" + centered_line("z") +
          "y = expr(t, w, v) fast input in0: i16[6, 8]; weight in1: i8[8, 4]; weight in2: i8[8, "
          "4]; t0: i32[a=6, b=4] = sum(k=8) i32(in0[a, k]) * i32(in1[k, b]); t1: i32[a=6, b=4] = "
          "sum(k=8) i32(in0[a, k]) * i32(in2[k, b]); out: i32[a=6, b=4] = max(t0[a, b], t1[a, "
          "b])\noutput y\n",
      {{"w", special_integers(Int8, {8, 4})},
       {"v", integer_constant(Int8, {8, 4}, {1, 2, 3})},
       {"z", integer_constant(UInt8, {}, {3})}});
  EXPECT_THAT(in_bytes(graph), HasSubstr("y = expr(q, w, v, w.sums, v.sums)"));
}

TEST(NarrowFactors, StrictSumsStayStrict) {
  std::string product = product_of_centered;
  product.replace(product.find("fast"), 4, "strict");
  EXPECT_THAT(in_bytes(product_of(centered_line("z") + product)),
              HasSubstr("y = expr(q, w, w.sums) strict input in0: u8[6, 8]"));
}

// The product reads some rows of q, which are not a tensor of their own.
TEST(NarrowFactors, APartOfATensorIsLeft) {
  const Graph graph = graph_from(
      "input q: u8[12, 8]\n"
      "t = expr(q) fast input in0: u8[12, 8]; out: i16[a=6, b=8] = i16(i32(in0[a, b]))\n" +
          product_of_centered + "output y\n",
      {{"w", special_integers(Int8, {8, 4})}});
  EXPECT_EQ(in_bytes(graph), operators_of(graph));
}

TEST(NarrowFactors, PaddingsAreZeros) {
  EXPECT_THAT(in_bytes(padded_convolution("")), HasSubstr("y = expr(q, w) fast input in0: u8["));
  EXPECT_EQ(in_bytes(padded_convolution("z")), operators_of(padded_convolution("z")));
}

TEST(NarrowFactors, LeavesOtherSums) {
  const auto left = [](const Graph& graph) { EXPECT_EQ(in_bytes(graph), operators_of(graph)); };
  const std::string centered = centered_line("z");
  // The centered tensor is an output of the graph, or nothing multiplies it.
  left(product_of(centered + product_of_centered, "input q: u8[6, 8]\n", "output y, t\n"));
  left(product_of(
      centered +
      "y = expr(t) fast input in0: i16[6, 8]; out: f32[a=6, b=8] = f32(i32(in0[a, b]))\n"));
  // The centered tensor has another reader, a sum, which would have to subtract the zero point from
  // each of its terms.
  left(product_of(centered + product_of_centered +
                      "s = expr(t) fast input in0: i16[6, 8]; out: i32[a=6] = sum(b=8) i32(in0[a, "
                      "b])\n",
                  "input q: u8[6, 8]\n", "output y, s\n"));
  // The weights have 16 bits, the weights are not constant, or the data have 16 bits from the
  // start.
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string product = product_of_centered;
    product.replace(product.find(from), from.size(), to);
    return centered + product;
  };
  std::string wide = with("weight in1: i8", "weight in1: i16");
  left(graph_from(
      "input q: u8[6, 8]\n" + wide + "output y\n",
      {{"w", special_integers(Int16, {8, 4})}, {"z", integer_constant(UInt8, {}, {3})}}));
  std::string unknown = with("weight in1", "input in1");
  unknown.replace(unknown.find("t, w"), 4, "t, v");
  left(product_of(unknown, "input q: u8[6, 8]\ninput v: i8[8, 4]\n"));
  left(graph_from("input t: i16[6, 8]\n" + product_of_centered + "output y\n",
                  {{"w", special_integers(Int8, {8, 4})}}));
  // The product reads only a part of the weights, or reads them under a condition. Then the sums of
  // all weights are not those of the product.
  const auto left_with_weights = [&](const std::string& product, int64_t rows) {
    left(graph_from(
        "input q: u8[6, 8]\n" + product + "output y\n",
        {{"w", special_integers(Int8, {rows, 4})}, {"z", integer_constant(UInt8, {}, {3})}}));
  };
  left_with_weights(with("in1: i8[8, 4]", "in1: i8[16, 4]"), 16);
  left_with_weights(with("i32(in1[k, b])", "i32(select(k < 4, in1[k, b], 0i8))"), 8);
  // The sums might not fit into 32 bits.
  const auto of_terms = [](int64_t n) {
    return graph_from(
        fmt::format("input q: u8[2, {0}]\n"
                    "t = expr(q) fast input in0: u8[2, {0}]; out: i16[a=2, b={0}] = i16(i32(in0[a, "
                    "b]) - 3i32)\n"
                    "y = expr(t, w) fast input in0: i16[2, {0}]; weight in1: i8[{0}, 2]; out: "
                    "i32[a=2, b=2] = sum(k={0}) i32(in0[a, k]) * i32(in1[k, b])\noutput y\n",
                    n),
        {{"w", special_integers(Int8, {n, 2})}});
  };
  EXPECT_THAT(in_bytes(of_terms(43'804)), HasSubstr("y = expr(q, w, w.sums)"));
  left(of_terms(43'808));
  // The target has no such instructions.
  const Graph graph = product_of(centered + product_of_centered);
  EXPECT_EQ(after("narrow_factors", graph), operators_of(graph));
}

TEST(FoldScale, NormalizationBecomesWeightsAndBias) {
  const Graph graph =
      graph_from(input_image + conv_line("c", "x") +
                     by_channel("y", "c", "(in0[a, b, c, d] - in1[b]) / sqrt(abs(in2[b]) + 0.01)") +
                     "output y\n",
                 scale_weights());
  const Graph folded = applied("fold_scale", graph);
  EXPECT_EQ(operators_of(folded),
            "y = conv2d(x, y.weight, y.bias) " + conv_attributes + " bias=1 f32 fast\n");
  const double scale =
      1 / std::sqrt(std::abs(graph.constants.at("m").array->get({2})) + double{0.01F});
  const double weight = graph.constants.at("w").array->get({2, 1, 0, 2});
  EXPECT_EQ(folded.constants.at("y.weight").array->get({2, 1, 0, 2}),
            static_cast<float>(weight * scale));
  EXPECT_EQ(folded.constants.at("y.bias").array->get({2}),
            static_cast<float>(-graph.constants.at("g").array->get({2}) * scale));
}

TEST(FoldScale, SeveralInARowFold) {
  const std::string product = "c = dense(x, w) " + dense_attributes + "\n";
  const auto row = [](const std::string& out, const std::string& in, const std::string& body) {
    return fmt::format(
        "{} = expr({}, k) fast input in0: f32[6, 8]; weight in1: f32[8]; out: f32[a=6, b=8] = {}\n",
        out, in, body);
  };
  const Graph graph = graph_from(
      "input x: f32[6, 4]\n" + product + row("s", "c", "in0[a, b] * in1[b]") +
          row("t", "s", "in1[b] - in0[a, b]") + row("y", "t", "in0[a, b] + in1[b]") + "output y\n",
      {{"w", normal_constant({4, 8})}, {"k", normal_constant({8})}});
  EXPECT_EQ(after("fold_scale", graph),
            "y = dense(x, t.weight, y.bias) m=6 n=8 k=4 bias=1 f32 fast\n");
}

TEST(FoldScale, AShiftKeepsTheWeights) {
  const Graph graph =
      graph_from(input_image + conv_line("c", "x") +
                     by_channel("y", "c", "in0[a, b, c, d] + in1[b] * in2[b]") + "output y\n",
                 scale_weights());
  EXPECT_EQ(after("fold_scale", graph),
            "y = conv2d(x, w, y.bias) " + conv_attributes + " bias=1 f32 fast\n");
}

TEST(FoldScale, LeavesWhatIsNoScaleOfTheOnlyReader) {
  const auto left = [&](const std::string& operators, const std::string& outputs) {
    const Graph graph =
        graph_from(input_image + operators + "output " + outputs + "\n", scale_weights());
    EXPECT_EQ(after("fold_scale", graph), operators_of(graph)) << operators;
  };
  const std::string scale = by_channel("y", "c", "in0[a, b, c, d] * in1[b] + in2[b]");
  left(conv_line("c", "x") + scale, "y, c");
  left(conv_line("c", "x") + scale + relu_line("z", "c"), "y, z");
  left(conv_line("c", "x") + by_channel("y", "c", "in1[b] / in0[a, b, c, d] + in2[b]"), "y");
  left(conv_line("c", "x") + by_channel("y", "c", "in0[a, b, c, d] * in1[c % 4] + in2[b]"), "y");
  left(conv_line("c", "x") + relu_line("r", "c") +
           by_channel("y", "r", "in0[a, b, c, d] * in1[b] + in2[b]"),
       "y");
}

TEST(FoldScale, LeavesScalesThatAreNotFinite) {
  auto weights = scale_weights();
  dsl::Array zeros = dsl::Array::make(Float32, {4}).value();
  weights["m"] = make_constant(zeros);
  const Graph graph =
      graph_from(input_image + conv_line("c", "x") +
                     by_channel("y", "c", "in0[a, b, c, d] * in1[b] / in2[b]") + "output y\n",
                 weights);
  EXPECT_EQ(after("fold_scale", graph), operators_of(graph));
}

}  // namespace
}  // namespace tw::graph
