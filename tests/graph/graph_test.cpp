// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/graph/graphs.h"

namespace tw::graph {
namespace {

using ::testing::HasSubstr;

TEST(Graph, PrintsAndParsesBack) {
  const Graph graph = residual_block();
  const std::string text = to_text(graph);
  EXPECT_THAT(text, HasSubstr("input x: f32[1, 4, 6, 6]\nconst w: f32[4, 4, 3, 3] #"));
  EXPECT_THAT(text, HasSubstr("\nc = conv2d(x, w) n=1 c=4 h=6 w=6 k=4 r=3 s=3 stride=1 pad=1"));
  EXPECT_THAT(text, HasSubstr("\noutput y\n"));
  const auto parsed = parse_graph(text, graph.constants);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(to_text(*parsed), text);
  EXPECT_EQ(hash(*parsed), hash(graph));
}

TEST(Graph, ReadsNamesThatAreWordsOfItsText) {
  Graph graph;
  graph.inputs = {{"input", {Float32, {3}}}};
  graph.operators = {
      from_text("input a: f32[3]\nb: f32[i=3] = max(a[i], 0.0)", {"input"}, {"const"}),
      from_text("input a: f32[3]\nb: f32[i=3] = -a[i]", {"const"}, {"output"})};
  graph.outputs = {"output"};
  const auto parsed = parse_graph(to_text(graph));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(to_text(*parsed), to_text(graph));
}

TEST(Graph, WrongTextNamesTheLine) {
  const auto message = [](const std::string& text) { return parse_graph(text).error().message; };
  EXPECT_THAT(message("input x f32[1]"), HasSubstr("line 1: expected input NAME: TYPE"));
  EXPECT_THAT(message("input x: f32[1]\ninput y: f32"), HasSubstr("line 2: 'f32' is no type"));
  EXPECT_THAT(message("input x: f32[-1]"), HasSubstr("'-1' is no extent"));
  EXPECT_THAT(message("const w: f32[1] #00"), HasSubstr("no bytes of the constant 'w'"));
  EXPECT_THAT(message("y = conv2d x"), HasSubstr("line 1: expected OUTPUTS = OPERATOR(INPUTS)"));
  EXPECT_THAT(message("y = nonsense(x) a=1"), HasSubstr("line 1: "));
  EXPECT_THAT(message("hello"), HasSubstr("line 1: expected input, const or output"));
}

TEST(Graph, TheHashNamesWeightsToo) {
  Graph other = residual_block();
  other.constants["w"] = make_constant(normal_array({4, 4, 3, 3}, 2));
  EXPECT_NE(hash(other), hash(residual_block()));
}

TEST(Graph, ValidationNamesWhatIsWrong) {
  const auto message = [](const std::function<void(Graph&)>& change) {
    Graph graph = residual_block();
    change(graph);
    const Status status = validate(graph);
    return status ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(message([](Graph&) {}), "valid");
  EXPECT_THAT(message([](Graph& g) { g.operators[1].inputs[0] = "z"; }),
              HasSubstr("operator 'y' (add_relu): it reads 'z', which nothing before it gives"));
  EXPECT_THAT(message([](Graph& g) { std::swap(g.operators[0], g.operators[1]); }),
              HasSubstr("it reads 'c'"));
  EXPECT_THAT(message([](Graph& g) { g.inputs[0].type.shape[2] = 7; }),
              HasSubstr("its input 'in' is f32[1, 4, 6, 6], but 'x' is f32[1, 4, 7, 6]"));
  EXPECT_THAT(message([](Graph& g) { g.inputs[0].type.dtype = Int32; }), HasSubstr("i32"));
  EXPECT_THAT(message([](Graph& g) { g.operators[1].outputs[0] = "c"; }),
              HasSubstr("tensor 'c' is given twice"));
  EXPECT_THAT(message([](Graph& g) { g.operators[1].outputs[0] = "a b"; }),
              HasSubstr("'a b' names no tensor"));
  EXPECT_THAT(message([](Graph& g) { g.outputs = {"q"}; }),
              HasSubstr("output 'q' is no tensor of the graph"));
  EXPECT_THAT(message([](Graph& g) {
                g.outputs = {"y", "y"};
              }),
              HasSubstr("output 'y' is given twice"));
  EXPECT_THAT(message([](Graph& g) {
                g.constants.clear();
                g.inputs.push_back({"w", {Float32, {4, 4, 3, 3}}});
              }),
              HasSubstr("its weight 'w' is 'w', which is no constant"));
  EXPECT_THAT(message([](Graph& g) { g.operators[0].inputs.pop_back(); }),
              HasSubstr("1 inputs for the 2 of its compute"));
}

TEST(Graph, IsInterpretedOperatorByOperator) {
  const Graph graph = residual_block();
  const dsl::Arrays inputs = random_inputs(graph, 5);
  const auto values = interpret(graph, inputs);
  ASSERT_TRUE(values) << values.error().message;
  const dsl::Array& c = values->at("c");
  const dsl::Array& y = values->at("y");
  for (int64_t i = 0; i < y.size(); ++i)
    EXPECT_FLOAT_EQ(y.get_float(i), std::max(c.get_float(i) + inputs.at("x").get_float(i), 0.0));
  EXPECT_FALSE(interpret(graph, {}));
}

TEST(Graph, DrawsEachOperatorAndTensor) {
  const std::string dot = to_dot(residual_block());
  EXPECT_THAT(dot, HasSubstr("\"x\" -> \"c\""));
  EXPECT_THAT(dot, HasSubstr(R"("y" [label="add_relu\ny"];)"));
  EXPECT_THAT(dot, HasSubstr("\"c\" -> \"y\""));
  EXPECT_THAT(dot, HasSubstr("\"y\" -> \"output y\""));
}

}  // namespace
}  // namespace tw::graph
