// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

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
  EXPECT_THAT(message("hello"), HasSubstr("line 1: expected input, const, loop or output"));
  EXPECT_THAT(message("loop l: many"), HasSubstr("line 1: expected loop NAME: TRIPS"));
  EXPECT_THAT(message("loop l: 2\nloop m: 2"), HasSubstr("line 2: expected loop NAME: TRIPS"));
  EXPECT_THAT(message("loop l: 2\nhello"), HasSubstr("line 2: expected slice, share, state"));
  EXPECT_THAT(message("loop l: 2\nstate h: a"), HasSubstr("line 2: expected slice NAME: NAME"));
  EXPECT_THAT(message("loop l: 2\nshare h: a backward"), HasSubstr("line 2: expected slice"));
  EXPECT_THAT(message("loop l: 2"), HasSubstr("loop 'l' has no end"));
}

// ---- loops ----------------------------------------------------------------------------------

TEST(Graph, LoopsPrintAndParseBack) {
  const Graph graph = recurrence(4, true);
  const std::string text = to_text(graph);
  EXPECT_THAT(text, HasSubstr("\nloop cell: 4\nslice x: xs backward\nshare u: v\n"
                              "state h: h0, h1, hn\nstate c: c0, c1, cn\n"
                              "stack hs: h1 backward\nstack ys: y\np = dense(h, w)"));
  EXPECT_THAT(text, HasSubstr("\nend\nz = "));
  const auto parsed = parse_graph(text, graph.constants);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(to_text(*parsed), text);
  EXPECT_NE(hash(graph), hash(recurrence(4)));
  EXPECT_NE(hash(graph), hash(recurrence(5, true)));
  EXPECT_THAT(to_dot(graph), HasSubstr("\"loop cell\" -> \"p\" [label=\"f32[2, 3]\"]"));
}

TEST(Graph, TypesOfALoopFollowFromItsTrips) {
  const auto types = tensor_types(recurrence(4));
  EXPECT_EQ(types.at("x").to_string(), "f32[2, 3]");
  EXPECT_EQ(types.at("u").to_string(), "f32[2, 3]");
  EXPECT_EQ(types.at("hs").to_string(), "f32[4, 2, 3]");
  EXPECT_EQ(types.at("hn").to_string(), "f32[2, 3]");
}

/// Results of the recurrence of recurrence(), computed by plain loops: hs, ys and the last c.
struct Recurred {
  std::vector<double> hs, ys, c;
};
Recurred recurred(const Graph& graph, const dsl::Arrays& inputs, bool is_backward) {
  const int64_t trips = graph.loops[0].trips;
  const dsl::Array &xs = inputs.at("xs"), &v = inputs.at("v"), &w = *graph.constants.at("w").array;
  std::vector<double> h(6), c(6);
  for (int64_t i = 0; i < 6; ++i) {
    h[static_cast<size_t>(i)] = inputs.at("h0").get_float(i);
    c[static_cast<size_t>(i)] = graph.constants.at("c0").array->get_float(i);
  }
  Recurred result;
  result.hs.resize(static_cast<size_t>(6 * trips));
  result.ys.resize(static_cast<size_t>(6 * trips));
  for (int64_t trip = 0; trip < trips; ++trip) {
    const int64_t at = 6 * (is_backward ? trips - 1 - trip : trip);
    const int64_t y_at = 6 * (is_backward ? trip : trips - 1 - trip);
    const std::vector<double> before = h;
    for (int64_t i = 0; i < 6; ++i) {
      double sum = xs.get_float(at + i) * v.get_float(i);
      for (int64_t k = 0; k < 3; ++k)
        sum += before[static_cast<size_t>(i / 3 * 3 + k)] * w.get_float(3 * k + i % 3);
      const auto e = static_cast<size_t>(i);
      h[e] = result.hs[static_cast<size_t>(at + i)] = std::tanh(sum);
      c[e] = c[e] / 2 + h[e];
      result.ys[static_cast<size_t>(y_at + i)] = c[e] - xs.get_float(at + i);
    }
  }
  result.c = c;
  return result;
}

TEST(Graph, LoopsAreInterpretedTripByTrip) {
  for (const bool is_backward : {false, true})
    for (const int64_t trips : {1, 2, 5}) {
      const Graph graph = recurrence(trips, is_backward);
      const Status valid = validate(graph);
      ASSERT_TRUE(valid) << valid.error().message;
      const dsl::Arrays inputs = random_inputs(graph, 5);
      const auto values = interpret(graph, inputs);
      ASSERT_TRUE(values) << values.error().message;
      const Recurred expected = recurred(graph, inputs, is_backward);
      for (size_t i = 0; i < expected.hs.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        EXPECT_NEAR(values->at("hs").get_float(at), expected.hs[i], 1e-5);
        EXPECT_NEAR(values->at("ys").get_float(at), expected.ys[i], 1e-5);
        EXPECT_NEAR(values->at("z").get_float(at), std::max(expected.ys[i], 0.0), 1e-5);
      }
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t last = 6 * (is_backward ? 0 : trips - 1);
        EXPECT_EQ(values->at("hn").get_float(i), values->at("hs").get_float(last + i));
        EXPECT_NEAR(values->at("cn").get_float(i), expected.c[static_cast<size_t>(i)], 1e-5);
      }
    }
}

TEST(Graph, ValidationOfLoopsNamesWhatIsWrong) {
  const auto message = [](const std::function<void(Graph&)>& change) {
    Graph graph = recurrence(4);
    change(graph);
    const Status status = validate(graph);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(message([](Graph&) {}), "");
  EXPECT_THAT(message([](Graph& g) { g.loops[0].trips = 0; }), HasSubstr("it has 0 trips"));
  EXPECT_THAT(message([](Graph& g) { g.loops[0].trips = 5; }),
              HasSubstr("'xs' is f32[4, 2, 3], expected a slice for each of 5 trips"));
  EXPECT_THAT(message([](Graph& g) { g.loops[0].name = ""; }), HasSubstr("names no loop"));
  EXPECT_THAT(message([](Graph& g) { g.loops[0].states[0].first = "hs"; }),
              HasSubstr("loop 'cell': it reads 'hs', which nothing before it gives"));
  EXPECT_THAT(message([](Graph& g) { g.loops[0].states[0].first = "xs"; }),
              HasSubstr("operator 'p'"));
  EXPECT_THAT(message([](Graph& g) { g.loops[0].states[0].next = "x"; }),
              HasSubstr("no operator of its body writes 'x'"));
  EXPECT_THAT(message([](Graph& g) { g.loops[0].stacks[0].inside = "w"; }),
              HasSubstr("no operator of its body writes 'w'"));
  EXPECT_THAT(message([](Graph& g) { g.loops[0].slices[0].inside = "v"; }),
              HasSubstr("tensor 'v' is given twice"));
  EXPECT_THAT(message([](Graph& g) { g.loops[0].stacks[0].outside = "p"; }),
              HasSubstr("tensor 'p' is given twice"));
  // A body reads only its own tensors, and operators outside of it do not read these.
  EXPECT_THAT(message([](Graph& g) { g.operators[3].inputs[1] = "h0"; }),
              HasSubstr("it reads 'h0', which nothing before it gives"));
  EXPECT_THAT(message([](Graph& g) { g.outputs.push_back("h1"); }),
              HasSubstr("output 'h1' is no tensor"));
  EXPECT_THAT(message([](Graph& g) { g.operators[1].loop.reset(); }),
              HasSubstr("no operator of its body writes 'h1'"));
  const auto with_late = [&](size_t loop) {
    return message([&](Graph& g) {
      g.operators.push_back(g.operators[4]);
      g.operators.back().outputs = {"late"};
      g.operators.back().loop = loop;
    });
  };
  EXPECT_THAT(with_late(0), HasSubstr("side by side"));
  EXPECT_THAT(with_late(1), HasSubstr("there is no loop 1"));
  EXPECT_THAT(message([](Graph& g) { g.loops.push_back(g.loops[0]); }),
              HasSubstr("it has no operators in its turn"));
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
