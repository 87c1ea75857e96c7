// SPDX-License-Identifier: Apache-2.0
#include "graph/rewrite.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/whole_numbers.h"
#include "tests/graph/graphs.h"

namespace tw::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string conv_key = "conv2d n=1 c=4 h=6 w=6 k=4 r=3 s=3 pad=1 f32 fast";

Operator relu(const std::string& in, const std::string& out) {
  return from_text(
      "input a: f32[1, 4, 6, 6] @NCHW\n"
      "b: f32[n=1, c=4, h=6, w=6] @NCHW = max(a[n, c, h, w], 0.0)",
      {in}, {out});
}

Operator add(const std::string& a, const std::string& b, const std::string& out) {
  return from_text(
      "input a: f32[1, 4, 6, 6] @NCHW\ninput b: f32[1, 4, 6, 6] @NCHW\n"
      "c: f32[n=1, k=4, y=6, x=6] @NCHW = a[n, k, y, x] + b[n, k, y, x]",
      {a, b}, {out});
}

/// Expects the same outputs from the operators one after another and from the fused operator.
void expect_same(const Graph& separate, const Operator& fused) {
  Graph joined = separate;
  joined.operators = {fused};
  ASSERT_TRUE(validate(separate)) << validate(separate).error().message;
  ASSERT_TRUE(validate(joined)) << validate(joined).error().message;
  const dsl::Arrays inputs = random_inputs(separate, 3);
  const auto expected = interpret(separate, inputs);
  const auto actual = interpret(joined, inputs);
  ASSERT_TRUE(expected && actual);
  for (const std::string& output : separate.outputs) {
    const dsl::Array& a = expected->at(output);
    const dsl::Array& b = actual->at(output);
    ASSERT_EQ(a.shape, b.shape);
    for (int64_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a.get_float(i), b.get_float(i), 1e-4 * (1 + std::abs(a.get_float(i)))) << i;
  }
}

TEST(Canonical, NamesDependOnStructureAlone) {
  const auto one = dsl::parse_compute(
      "input p: f32[2, 3]\ninput unused: f32[9]\nweight q: f32[3]\n"
      "m: f32[i=2] = max(j=3) p[i, j]\nz: f32[u=2, v=3] = (p[u, v] - m[u]) * q[v]");
  const auto two = dsl::parse_compute(
      "weight b: f32[3]\ninput a: f32[2, 3]\n"
      "t: f32[x=2] = max(k=3) a[x, k]\nr: f32[x=2, k=3] = (a[x, k] - t[x]) * b[k]");
  ASSERT_TRUE(one && two);
  const Canonical first = canonical(*one);
  EXPECT_EQ(dsl::to_line(first.compute), dsl::to_line(canonical(*two).compute));
  EXPECT_EQ(dsl::to_line(first.compute),
            "input in0: f32[2, 3]; weight in1: f32[3]; t0: f32[a=2] = max(r0=3) in0[a, r0]; "
            "out: f32[a=2, b=3] = (in0[a, b] - t0[a]) * in1[b]");
  EXPECT_EQ(first.names.at("p"), "in0");
  EXPECT_EQ(first.names.at("z"), "out");
  EXPECT_FALSE(first.names.contains("unused"));
  EXPECT_TRUE(dsl::validate(first.compute));
}

TEST(Canonical, IsItsOwnCanonicalForm) {
  const Canonical form = canonical(dsl::parse_workload(conv_key)->compute);
  EXPECT_EQ(dsl::to_line(canonical(form.compute).compute), dsl::to_line(form.compute));
}

TEST(Canonical, ScansKeepTheirAxis) {
  const auto scan = dsl::parse_compute(
      "input x: f32[1, 5, 1]; t: f32[row=1, step=5, one=1] = sum(p < step) x[0, p, 0]; "
      "u: f32[row=1, step=5, one=1] = max(p <= one) t[row, step, 0]");
  const dsl::Compute form = canonical(*scan).compute;
  ASSERT_TRUE(dsl::validate(form)) << dsl::validate(form).error().message;
  EXPECT_THAT(dsl::to_line(form), HasSubstr("= sum(r0 < b) "));
  EXPECT_THAT(dsl::to_line(form), HasSubstr("[a, r0, c]"));
  EXPECT_THAT(dsl::to_line(form), HasSubstr("= max(r0 <= c) "));
  EXPECT_THAT(dsl::to_line(form), HasSubstr("[a, b, 0]"));
}

TEST(Fuse, AConvolutionTakesBiasResidualAndReluByName) {
  Graph graph;
  graph.inputs = {{"x", {Float32, {1, 4, 6, 6}}}, {"s", {Float32, {1, 4, 6, 6}}}};
  graph.constants["w"] = make_constant(normal_array({4, 4, 3, 3}, 1));
  graph.constants["b"] = make_constant(normal_array({4}, 2));
  graph.operators = {
      named("conv2d n=1 c=4 h=6 w=6 k=4 r=3 s=3 pad=1 bias=1 f32 fast", {"x", "w", "b"}, "c"),
      add("s", "c", "t"), relu("t", "y")};
  graph.outputs = {"y"};
  const auto fused = fuse(graph.operators, {"y"}, graph.constants);
  ASSERT_TRUE(fused) << fused.error().message;
  EXPECT_EQ(fused->workload.key(),
            "conv2d n=1 c=4 h=6 w=6 k=4 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 bias=1 "
            "residual=1 relu=1 f32 fast");
  EXPECT_THAT(fused->inputs, ElementsAre("x", "w", "b", "s"));
  EXPECT_THAT(fused->outputs, ElementsAre("y"));
  expect_same(graph, *fused);
}

TEST(Fuse, ATensorInTheMiddleMayStayAnOutput) {
  Graph graph;
  graph.inputs = {{"x", {Float32, {1, 4, 6, 6}}}};
  graph.operators = {relu("x", "t"), add("t", "x", "y")};
  graph.outputs = {"t", "y"};
  const auto fused = fuse(graph.operators, {"t", "y"}, graph.constants);
  ASSERT_TRUE(fused) << fused.error().message;
  EXPECT_EQ(fused->workload.compute.stages.size(), 2u);
  expect_same(graph, *fused);
}

TEST(Fuse, WhatIsReadTwiceAtTheSameElementIsWrittenOut) {
  Graph graph;
  graph.inputs = {{"x", {Float32, {1, 4, 6, 6}}}};
  graph.operators = {relu("x", "t"), add("t", "t", "y")};
  graph.outputs = {"y"};
  const auto fused = fuse(graph.operators, {"y"}, graph.constants);
  ASSERT_TRUE(fused) << fused.error().message;
  EXPECT_EQ(fused->workload.compute.stages.size(), 1u);
  EXPECT_THAT(fused->inputs, ElementsAre("x"));
  expect_same(graph, *fused);
}

TEST(Fuse, AStageThatAReductionReadsTwiceStaysAStage) {
  Graph graph;
  graph.inputs = {{"x", {Float32, {1, 4, 6, 6}}}};
  graph.operators = {relu("x", "t"),
                     from_text("input a: f32[1, 4, 6, 6]\n"
                               "s: f32[n=1, c=4] = sum(h=6, w=6) a[n, c, h, w] * a[n, c, h, w]",
                               {"t"}, {"y"})};
  graph.outputs = {"y"};
  const auto fused = fuse(graph.operators, {"y"}, graph.constants);
  ASSERT_TRUE(fused) << fused.error().message;
  EXPECT_EQ(fused->workload.compute.stages.size(), 2u);
  expect_same(graph, *fused);
}

TEST(InlineStages, WhatTwoLoopsReadStaysAStage) {
  const auto compute = dsl::parse_compute(
      "input x: f32[4, 8]\ne: f32[i=4, j=8] = exp(x[i, j])\n"
      "d: f32[i=4, j=8] = e[i, j] * 2.0\ns: f32[i=4] = sum(j=8) d[i, j]\n"
      "out: f32[i=4, j=8] = e[i, j] / s[i]");
  ASSERT_TRUE(compute);
  const dsl::Compute inlined = inline_stages(*compute);
  ASSERT_EQ(inlined.stages.size(), 3u);
  EXPECT_EQ(inlined.stages[0].name, "e");
  EXPECT_EQ(inlined.stages[1].name, "s");
}

TEST(InlineStages, DiamondsStaySmall) {
  std::string text = "input x: f32[4]\nt0: f32[i=4] = abs(x[i])\n";
  for (int level = 1; level <= 30; ++level)
    text += fmt::format("t{0}: f32[i=4] = t{1}[i] * 0.5 + tanh(t{1}[i])\n", level, level - 1);
  const auto compute = dsl::parse_compute(text);
  ASSERT_TRUE(compute);
  const dsl::Compute inlined = inline_stages(*compute);
  EXPECT_TRUE(dsl::validate(inlined));
  EXPECT_LT(inlined.stages.size(), 10u);
  for (const dsl::Stage& stage : inlined.stages) EXPECT_LT(stage.body.node().size, 3000);
}

TEST(Fuse, RefusesWhatNoOperatorGives) {
  const Graph graph = residual_block();
  EXPECT_THAT(fuse(graph.operators, {"q"}, graph.constants).error().message,
              HasSubstr("no operator gives 'q'"));
  EXPECT_THAT(fuse(graph.operators, {"x"}, graph.constants).error().message,
              HasSubstr("no operator gives 'x'"));
}

TEST(MakeOperator, WritesConstantsOfOneElementOut) {
  Graph graph;
  dsl::Array half = dsl::Array::make(Float32, {}).value();
  half.set_float(0, 0.5);
  graph.constants["h"] = make_constant(half);
  const Operator op = from_text("input a: f32[3]\ninput s: f32[]\nb: f32[i=3] = a[i] * s[]",
                                {"x", "h"}, {"y"}, graph);
  EXPECT_EQ(op.workload.key(), "expr fast input in0: f32[3]; out: f32[a=3] = in0[a] * 0.5");
  EXPECT_THAT(op.inputs, ElementsAre("x"));
}

TEST(MakeOperator, DeclaresWhatIsConstantAsAWeight) {
  Graph graph;
  graph.constants["s"] = make_constant(normal_array({3}, 1));
  const Operator op = from_text("weight a: f32[3]\ninput s: f32[3]\nb: f32[i=3] = a[i] * s[i]",
                                {"x", "s"}, {"y"}, graph);
  EXPECT_FALSE(op.workload.compute.inputs[0].constant);
  EXPECT_TRUE(op.workload.compute.inputs[1].constant);
}

TEST(Reshape, MovesNoElement) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> cases = {
      {{2, 3, 4}, {6, 4}}, {{6, 4}, {2, 3, 4}}, {{1, 8, 1, 1}, {1, 8}}, {{12}, {3, 1, 4}},
      {{}, {1, 1}},        {{1}, {}},           {{4, 6}, {3, 8}},       {{2, 0, 3}, {0, 6}}};
  for (const auto& [from, to] : cases) {
    const auto compute = reshape(Float32, from, to);
    ASSERT_TRUE(compute) << compute.error().message;
    const dsl::Array in = normal_array(from, 7);
    const auto out = dsl::interpret(*compute, {{"in", in}});
    ASSERT_TRUE(out) << out.error().message;
    EXPECT_EQ(out->at("out").shape, to);
    EXPECT_EQ(out->at("out").data, in.data);
    EXPECT_TRUE(is_reshape(make_operator(*compute, {"x"}, {"y"}, {}).value()));
  }
  EXPECT_FALSE(reshape(Float32, {2, 3}, {5}));
}

TEST(Reshape, ATransposeIsNone) {
  EXPECT_FALSE(is_reshape(named("transpose rows=3 cols=4 f32 fast", {"x"}, "y")));
  EXPECT_FALSE(
      is_reshape(from_text("input a: f32[3, 3]\nb: f32[i=3, j=3] = a[j, i]", {"x"}, {"y"})));
  EXPECT_FALSE(
      is_reshape(from_text("input a: f32[3, 3]\nb: f32[i=3, j=3] = -a[i, j]", {"x"}, {"y"})));
  EXPECT_TRUE(is_reshape(
      from_text("input a: f32[3, 3] @XY\nb: f32[i=3, j=3] @CD = a[i, j]", {"x"}, {"y"})));
}

dsl::Compute of_numbers(const std::string& body) {
  return dsl::parse_compute("input x: f32[64]; out: f32[i=64] = " + body).value();
}

/// Returns the expression without round trips. Checks that it keeps its values, also for NaN and
/// infinities.
std::string after_round_trips(const std::string& body) {
  const dsl::Compute before = of_numbers(body);
  dsl::Compute after = before;
  dsl::Expr& value = after.stages.front().body;
  value = without_round_trips(value);
  Random random(5);
  dsl::Array x = dsl::Array::make(Float32, {64}).value();
  dsl::fill_special(x, random);
  for (int64_t i = 0; i < x.size(); i += 3) x.set_float(i, 40 * x.get_float(i));
  EXPECT_EQ(dsl::interpret(before, {{"x", x}})->at("out").data,
            dsl::interpret(after, {{"x", x}})->at("out").data)
      << body;
  return dsl::to_string(value);
}

TEST(WholeNumbers, StayFloatsWhereAnIntegerWouldHoldThem) {
  EXPECT_EQ(after_round_trips("f32(i32(u8(clamp(round(x[i]) + 3.0, 0.0, 255.0))) - 3) * 0.5"),
            "(max(min(round(x[i]) + 3.0, 255.0), 0.0) - 3.0) * 0.5");
  EXPECT_EQ(after_round_trips("f32(i32(i16(i32(u8(clamp(round(x[i]), 0.0, 255.0))) - 128)))"),
            "max(min(round(x[i]), 255.0), 0.0) - 128.0");
}

TEST(WholeNumbers, BecomeIntegersWhereThatChangesThem) {
  for (const char* body : {
           "f32(u8(clamp(x[i], 0.0, 255.0)))",                      // no whole number
           "f32(u8(clamp(round(x[i]), 0.0, 256.0)))",               // saturates
           "f32(u8(round(x[i])))",                                  // likewise
           "f32(i32(clamp(round(x[i]), 0.0, 16777216.0)) + 1i32)",  // no float
           "f32(u8(clamp(round(x[i]), 0.0, 255.0)) - 3u8)",         // wraps
       })
    EXPECT_EQ(after_round_trips(body), dsl::to_string(of_numbers(body).stages.front().body));
}

}  // namespace
}  // namespace tw::graph
