// SPDX-License-Identifier: Apache-2.0
#include "graph/passes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/graph/random_graph.h"

namespace tw::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A graph from its text, without the lines of the constants.
Graph graph_from(const std::string& text, const std::map<std::string, Constant>& constants = {}) {
  std::string all;
  for (const auto& [name, constant] : constants)
    all += fmt::format("const {}: {} #{}\n", name, constant.type().to_string(), constant.hash);
  auto graph = parse_graph(all + text, constants);
  EXPECT_TRUE(graph) << graph.error().message;
  return *graph;
}

Constant normal_constant(std::vector<int64_t> shape, uint64_t seed = 7) {
  return make_constant(normal_array(std::move(shape), seed));
}

/// The operators of a graph, one a line.
std::string operators_of(const Graph& graph) {
  std::string lines;
  const std::string text = to_text(graph);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.find(" = ") != std::string::npos) lines += line + "\n";
  }
  return lines;
}

const Pass& pass_of(const std::string& name) {
  const auto found =
      std::ranges::find_if(passes(), [&](const Pass& pass) { return pass.name == name; });
  EXPECT_NE(found, passes().end()) << name;
  return *found;
}

/// Applies one pass, and checks on random inputs that the outputs stay.
Graph applied(const std::string& name, const Graph& graph) {
  PassOptions options{.verify = true};
  for (const Pass& pass : passes())
    if (pass.name != name) options.disabled.insert(std::string(pass.name));
  pass_of(name);
  auto passed = apply_passes(graph, options);
  EXPECT_TRUE(passed) << passed.error().message;
  return passed ? passed->graph : Graph{};
}

std::string after(const std::string& name, const Graph& graph) {
  return operators_of(applied(name, graph));
}

/// An operator of one input by its expression over in0[a, b, ...].
std::string unary_line(const std::string& out, const std::string& in, const std::string& shape,
                       const std::string& axes, const std::string& body) {
  return fmt::format("{} = expr({}) fast input in0: f32[{}]; out: f32[{}] = {}\n", out, in, shape,
                     axes, body);
}

/// On vectors of 8 numbers.
std::string relu8(const std::string& out, const std::string& in) {
  return unary_line(out, in, "8", "a=8", "max(in0[a], 0.0)");
}
std::string tanh8(const std::string& out, const std::string& in) {
  return unary_line(out, in, "8", "a=8", "tanh(in0[a])");
}
std::string add8(const std::string& out, const std::string& x, const std::string& y) {
  return fmt::format(
      "{} = expr({}, {}) fast input in0: f32[8]; input in1: f32[8]; out: f32[a=8] = in0[a] + "
      "in1[a]\n",
      out, x, y);
}

const std::string image_shape = "1, 4, 6, 6", image_axes = "a=1, b=4, c=6, d=6";
const std::string conv_attributes =
    "n=1 c=4 h=6 w=6 k=4 r=3 s=3 stride=1 pad=1 dilation=1 groups=1";

std::string conv_line(const std::string& out, const std::string& in, const std::string& w = "w") {
  return fmt::format("{} = conv2d({}, {}) {} f32 fast\n", out, in, w, conv_attributes);
}
std::string on_image(const std::string& out, const std::string& in, const std::string& body) {
  return unary_line(out, in, image_shape, image_axes, body);
}
std::string relu_line(const std::string& out, const std::string& in) {
  return on_image(out, in, "max(in0[a, b, c, d], 0.0)");
}
std::string add_line(const std::string& out, const std::string& x, const std::string& y) {
  return fmt::format(
      "{} = expr({}, {}) fast input in0: f32[{}]; input in1: f32[{}]; out: f32[{}] = in0[a, b, c, "
      "d] + in1[a, b, c, d]\n",
      out, x, y, image_shape, image_shape, image_axes);
}
/// With two constants of four channels.
std::string by_channel(const std::string& out, const std::string& in, const std::string& body) {
  return fmt::format(
      "{} = expr({}, g, m) fast input in0: f32[{}]; weight in1: f32[4]; weight in2: f32[4]; out: "
      "f32[{}] = {}\n",
      out, in, image_shape, image_axes, body);
}
const std::string input_image = fmt::format("input x: f32[{}]\n", image_shape);

std::map<std::string, Constant> conv_weights() {
  return {{"w", normal_constant({4, 4, 3, 3}, 1)}, {"v", normal_constant({4, 4, 3, 3}, 2)}};
}
std::map<std::string, Constant> scale_weights() {
  auto weights = conv_weights();
  weights["g"] = normal_constant({4}, 3);
  weights["m"] = normal_constant({4}, 4);
  return weights;
}

// ---- drop_dead, fold_constants, share_common ----------------------------------------------------

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

/// A product of constants, larger than the interpreter computes quickly.
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

// ---- remove_copies, sink_reshapes ---------------------------------------------------------------

std::string copy8(const std::string& out, const std::string& in) {
  return unary_line(out, in, "8", "a=8", "in0[a]");
}
std::string transpose_line(const std::string& out, const std::string& in, int64_t rows,
                           int64_t cols) {
  return unary_line(out, in, fmt::format("{}, {}", rows, cols),
                    fmt::format("a={}, b={}", cols, rows), "in0[b, a]");
}
std::string reshape_line(const std::string& out, const std::string& in,
                         const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                         DType type = Float32) {
  const auto op = make_operator(reshape(type, from, to).value(), {in}, {out}, {});
  Graph graph;
  graph.operators = {op.value()};
  return operators_of(graph);
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

const std::string dense_attributes = "m=6 n=8 k=4 f32 fast";

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

// ---- widen_factors ------------------------------------------------------------------------------

/// y = x w, in f16, behind an operator that writes x and a transpose of it.
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

// A product of two rows waits for its weights from memory; each element of its left factor it reads
// nine times.
TEST(WidenFactors, LeavesWeightsThatFewRowsRead) {
  const Graph wide = applied("widen_factors", half_product(2));
  EXPECT_TRUE(wide.constants.contains("w"));
  EXPECT_THAT(operators_of(wide), HasSubstr("y = expr(t, w) fast input in0: f32[2, 6]"));
}

TEST(WidenFactors, LeavesOutputsOfTheGraph) {
  const Graph wide = applied("widen_factors", half_product(8, "output y, t\n"));
  EXPECT_THAT(operators_of(wide), HasSubstr("y = expr(t, w.wide) fast input in0: f16[8, 6]"));
}

// A number of bf16 is none of f16: it is rounded, and may overflow.
TEST(WidenFactors, KeepsRoundingsToTheOtherTypeOf16Bits) {
  const Graph graph = graph_from(
      "input h: bf16[8]\ninput w: f32[8, 9]\n"
      "x = expr(h) fast input in0: bf16[8]; out: bf16[a=8] = bf16(f32(in0[a]) * 1e6)\n"
      "y = expr(x, w) fast input in0: bf16[8]; input in1: f32[8, 9]; out: f32[a=9] = sum(k=8) "
      "f32(f16(f32(in0[k]))) * f32(in0[k]) * in1[k, a]\noutput y\n");
  EXPECT_THAT(operators_of(pass_of("widen_factors").apply(graph, {}).value()),
              HasSubstr("f32(f16(in0[r0])) * in0[r0] * in1[r0, a]"));
}

// Padded tensors, and those that are concatenated with a tensor that stays as it is.
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

// ---- round_factors ------------------------------------------------------------------------------

/// Applies round_factors to a graph, for a target that multiplies bf16 as it is, or for another
/// one. Checks that outputs stay within the roundings.
Graph rounded(const Graph& graph, bool multiplies) {
  PassOptions options{.verify = true, .precision = BFloat16};
  if (multiplies) options.multiplied = {BFloat16};
  for (const Pass& pass : passes())
    if (pass.name != "round_factors") options.disabled.insert(std::string(pass.name));
  auto passed = apply_passes(graph, options);
  EXPECT_TRUE(passed) << passed.error().message;
  return passed ? passed->graph : Graph{};
}

/// z = 2 x w + x, where an operator writes x.
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

// Instructions sum pairs of products, and lanes lie along the weights.
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

// Tensor tiles read paddings of numbers of 16 bits.
TEST(RoundFactors, PadsNumbersOf16Bits) {
  const Graph graph = graph_from(
      "input a: f32[1, 4, 5, 5]\n"
      "x = expr(a) fast input in0: f32[1, 4, 5, 5]; out: f32[a=1, b=4, c=5, d=5] = "
      "in0[a, b, c, d] * 0.5\n"
      "y = conv2d(x, w) n=1 c=4 h=5 w=5 k=6 r=3 s=3 pad=1 f32 fast\noutput y\n",
      {{"w", normal_constant({6, 4, 3, 3})}});
  EXPECT_THAT(operators_of(rounded(graph, true)), HasSubstr(", 0.0bf16)) * f32(in1["));
}

// An instruction sums neighbours: elements along a window and a stride are none, and the image of a
// patch embedding is copied for nothing.
TEST(RoundFactors, LeavesReductionsWithoutNeighbours) {
  const Graph graph = graph_from(
      "input a: f32[3, 32]\n"
      "y = expr(a, w) fast input in0: f32[3, 32]; weight in1: f32[6, 3, 8]; "
      "out: f32[a=6, b=4] = sum(c=3, r=8) in0[c, b * 8 + r] * in1[a, c, r]\noutput y\n",
      {{"w", normal_constant({6, 3, 8})}});
  EXPECT_EQ(operators_of(rounded(graph, true)), operators_of(graph));
}

// A product of two activations and a strict operator would convert x, too.
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

// Only what a product reads is rounded, not what stands beside it in a concatenation.
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

// ---- narrow_products ----------------------------------------------------------------------------

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

/// A quantized image of 4 channels, and weights with a scale for each of 4 channels.
std::map<std::string, Constant> quantized_weights() {
  return {{"z", integer_constant(UInt8, {}, {3})},
          {"s", normal_constant({})},
          {"wq", special_integers(Int8, {4, 4, 3, 3})},
          {"v", special_integers(Int8, {6, 4})},
          {"ws", normal_constant({4})}};
}

const std::string dequantized_image =
    "a = expr(q, z, s) fast input in0: u8[1, 4, 6, 6]; weight in1: u8[]; weight in2: f32[]; out: "
    "f32[a=1, b=4, c=6, d=6] = f32(i32(in0[a, b, c, d]) - i32(in1[])) * in2[]\n";
const std::string dequantized_weights =
    "w = expr(wq, ws) fast weight in0: i8[4, 4, 3, 3]; weight in1: f32[4]; out: f32[a=4, b=4, c=3, "
    "d=3] = f32(i32(in0[a, b, c, d])) * in1[a]\n";

/// A convolution by weights that are no constant yet.
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

// The weights are known row by row, and the product reads their transpose.
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

// Other operators that dequantize the image share its centered form. Reshapes may stand between.
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
  // Weights that nobody dequantizes.
  left(dequantized_image + convolution("y", "a", "u"),
       quantized_image + "input u: f32[4, 4, 3, 3]\n");
  // Scales that differ along the sum.
  const std::string by_input =
      "w = expr(wq, ws) fast weight in0: i8[4, 4, 3, 3]; weight in1: f32[4]; out: f32[a=4, b=4, "
      "c=3, d=3] = f32(i32(in0[a, b, c, d])) * in1[b]\n";
  left(dequantized_image + by_input + convolution("y", "a", "w"), quantized_image);
  // Two activations.
  left(
      "a = expr(q) fast input in0: u8[6, 6]; out: f32[a=6, b=6] = f32(i32(in0[a, b])) * 0.5\n"
      "b = expr(p) fast input in0: u8[6, 6]; out: f32[a=6, b=6] = f32(i32(in0[a, b])) * 0.5\n"
      "y = expr(a, b) fast input in0: f32[6, 6]; input in1: f32[6, 6]; out: f32[a=6, b=6] = "
      "sum(c=6) in0[a, c] * in1[c, b]\n",
      "input p: u8[6, 6]\ninput q: u8[6, 6]\n");
  // Scales along both axes of the result.
  left(
      "a = expr(q, ws) fast input in0: u8[4, 6]; weight in1: f32[4]; out: f32[a=4, b=6] = "
      "f32(i32(in0[a, b])) * in1[a]\n"
      "w = expr(v, ws) fast weight in0: i8[6, 4]; weight in1: f32[4]; out: f32[a=6, b=4] = "
      "f32(i32(in0[a, b])) * in1[b]\n"
      "y = expr(a, w) fast input in0: f32[4, 6]; input in1: f32[6, 4]; out: f32[a=4, b=4] = "
      "sum(c=6) in0[a, c] * in1[c, b]\n",
      "input q: u8[4, 6]\n");
  // Zero points beyond 16 bits.
  left(
      "a = expr(q) fast input in0: u8[4, 6]; out: f32[a=4, b=6] = f32(i32(in0[a, b]) - 40000i32) * "
      "0.5\n"
      "w = expr(v) fast weight in0: i8[6, 4]; out: f32[a=6, b=4] = f32(i32(in0[a, b])) * 0.5\n"
      "y = expr(a, w) fast input in0: f32[4, 6]; input in1: f32[6, 4]; out: f32[a=4, b=4] = "
      "sum(c=6) in0[a, c] * in1[c, b]\n",
      "input q: u8[4, 6]\n");
  // A padding that is not 0.
  std::string padded = convolution("y", "a", "w");
  padded.replace(padded.find("0.0)"), 4, "1.0)");
  left(dequantized_image + dequantized_weights + padded, quantized_image);
  // The class strict.
  std::string strict = dequantized_image + dequantized_weights + convolution("y", "a", "w");
  for (size_t at = 0; (at = strict.find(" fast ", at)) != std::string::npos;)
    strict.replace(at, 6, " strict ");
  left(strict, quantized_image);
  // A scale that is no constant.
  left(
      "a = expr(q, t) fast input in0: u8[1, 4, 6, 6]; input in1: f32[]; out: f32[a=1, b=4, c=6, "
      "d=6] = f32(i32(in0[a, b, c, d])) * in1[]\n" +
          dequantized_weights + convolution("y", "a", "w"),
      quantized_image + "input t: f32[]\n");
}

// 255 * 128 * 70,000 is beyond 32 bits.
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

// The image and its floats are outputs too.
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

// ---- narrow_factors -----------------------------------------------------------------------------

/// The operators of a graph for a target that multiplies data of this type of 8 bits with weights
/// of i8. Checks that outputs stay, on the least and largest numbers among others.
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

/// t = i16(i32(q) - zero), of 6 x 8 numbers.
std::string centered_line(const std::string& zero, const std::string& type = "u8") {
  return fmt::format(
      "t = expr(q, {0}) fast input in0: {1}[6, 8]; input in1: {1}[]; out: i16[a=6, b=8] = "
      "i16(i32(in0[a, b]) - i32(in1[]))\n",
      zero, type);
}
const std::string uncentered_line =
    "t = expr(q) fast input in0: u8[6, 8]; out: i16[a=6, b=8] = i16(i32(in0[a, b]))\n";

/// y = sum(t * w), of 8 terms.
const std::string product_of_centered =
    "y = expr(t, w) fast input in0: i16[6, 8]; weight in1: i8[8, 4]; out: i32[a=6, b=4] = sum(k=8) "
    "i32(in0[a, k]) * i32(in1[k, b])\n";

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
  // One that is known when the graph runs.
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

// An instruction multiplies u8 by i8, and no other numbers.
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

/// A convolution of centered numbers.
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

// The rows of a larger tensor are no tensor of their own.
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
  // An output, and numbers that nothing multiplies.
  left(product_of(centered + product_of_centered, "input q: u8[6, 8]\n", "output y, t\n"));
  left(product_of(
      centered +
      "y = expr(t) fast input in0: i16[6, 8]; out: f32[a=6, b=8] = f32(i32(in0[a, b]))\n"));
  // A reader that would subtract the zero point again and again.
  left(product_of(centered + product_of_centered +
                      "s = expr(t) fast input in0: i16[6, 8]; out: i32[a=6] = sum(b=8) i32(in0[a, "
                      "b])\n",
                  "input q: u8[6, 8]\n", "output y, s\n"));
  // Weights of 16 bits, weights that are no constant, and numbers of 16 bits as such.
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
  // A part of the weights, and weights behind a guard, whose sums are no sums of all weights.
  const auto left_with_weights = [&](const std::string& product, int64_t rows) {
    left(graph_from(
        "input q: u8[6, 8]\n" + product + "output y\n",
        {{"w", special_integers(Int8, {rows, 4})}, {"z", integer_constant(UInt8, {}, {3})}}));
  };
  left_with_weights(with("in1: i8[8, 4]", "in1: i8[16, 4]"), 16);
  left_with_weights(with("i32(in1[k, b])", "i32(select(k < 4, in1[k, b], 0i8))"), 8);
  // Sums that may leave 32 bits.
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
  // A target without the instructions.
  const Graph graph = product_of(centered + product_of_centered);
  EXPECT_EQ(after("narrow_factors", graph), operators_of(graph));
}

// ---- fuse_padding, fold_scale -------------------------------------------------------------------

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

// ---- fuse_elementwise ---------------------------------------------------------------------------

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

// The sum of two products that are quantized before: what lies between kernels has 8 bits.
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

// A narrow operator that no reduction can take stays in its group.
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

// ---- fuse_epilogues, fuse_prologues -------------------------------------------------------------

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

// ---- merge_siblings, name_attention -------------------------------------------------------------

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

// ---- compress_blocks ----------------------------------------------------------------------------

/// Weights [k, n] in which one of five blocks is kept, and fewer in the first column of blocks;
/// [n, k, 1, 1] if transposed.
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
  // The first column of blocks has one, the others eight; after it there are zeros.
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
  // Nine of ten elements are zero, in no pattern.
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

// The rows behind the sum's are no part of it.
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

// ---- nest_concatenations ------------------------------------------------------------------------

/// `out` is these tensors of `channels` channels each one after another.
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

/// Two heads of 5 queries and 7 keys of 4 numbers, keys as they come from a projection.
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

/// The same behind Where(mask, scores, low), the scores scaled afterwards.
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

// ---- apply_passes -------------------------------------------------------------------------------

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

// ---- loops ----------------------------------------------------------------------------------

Graph passed(const Graph& graph) {
  const auto result = apply_passes(graph, {.verify = true});
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->graph : Graph{};
}

TEST(Loops, ABodyIsFusedByItself) {
  const Graph graph = passed(recurrence(3));
  ASSERT_EQ(graph.loops.size(), 1u);
  // tanh joins the product; c1 and y leave the body, and relu stays outside of it.
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
  // Only the last c is needed: h is computed for it, and nothing is stacked.
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

/// The graph as the body of a loop: inputs are slices and shares by turns, outputs are stacked.
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
