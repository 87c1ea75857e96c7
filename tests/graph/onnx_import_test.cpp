// SPDX-License-Identifier: Apache-2.0
// What a model becomes, and that everything that is wrong with one is an error with a name in it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "graph/onnx/import.h"
#include "tests/graph/onnx_models.h"

namespace tw::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

void expect_error(const Result<Graph>& result, ErrorCode code, const std::string& what) {
  ASSERT_FALSE(result) << to_text(*result);
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_THAT(result.error().message, AllOf(testing::StartsWith("[onnx] "), HasSubstr(what)));
}
void expect_error(const Result<OnnxModel>& result, ErrorCode code, const std::string& what) {
  expect_error(result.map([](const OnnxModel& model) { return model.graph; }), code, what);
}

void expect_invalid(const ModelProto& model, const std::string& what) {
  expect_error(imported(model), ErrorCode::Invalid, what);
}

void expect_unsupported(const ModelProto& model, const std::string& what) {
  expect_error(imported(model), ErrorCode::Unsupported, what);
}

Graph graph_of(const ModelProto& model, const OnnxOptions& options = {}) {
  Result<Graph> graph = imported(model, options);
  if (!graph) ADD_FAILURE() << graph.error().message;
  return graph ? *graph : Graph{};
}

/// The elements of an output that is a constant.
std::vector<double> values_of(const Graph& graph, const std::string& name) {
  const auto found = graph.constants.find(name);
  if (found == graph.constants.end()) return {};
  std::vector<double> values;
  for (int64_t i = 0; i < found->second.array->size(); ++i)
    values.push_back(found->second.array->get_float(i));
  return values;
}

std::vector<double> constant_value(const TensorProto& tensor) {
  return values_of(graph_of(constant_model(tensor)), tensor.name());
}

// ---- what a model becomes -----------------------------------------------------------------------

TEST(OnnxImport, AnOutputThatIsAnInputIsCopied) {
  const Graph graph = graph_of(identity_model());
  EXPECT_THAT(graph.inputs, ElementsAre(Port{"x", {Float32, {3}}}));
  EXPECT_THAT(graph.outputs, ElementsAre("y"));
  ASSERT_EQ(graph.operators.size(), 1u);
  EXPECT_THAT(graph.operators[0].inputs, ElementsAre("x"));
}

TEST(OnnxImport, ShapesAreKnownAtImport) {
  ModelProto model = empty_model();
  add_input(model, "x", {2, 3, 5});
  add_node(model, "Shape", {"x"}, {"s"});
  add_node(model, "Gather", {"s", "last"}, {"g"});
  add_node(model, "ConstantOfShape", {"g"}, {"y"});
  add_initializer(model, integers("last", {1}, {-1}));
  add_output(model, "y");
  const Graph graph = graph_of(model);
  EXPECT_THAT(values_of(graph, "y"), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(graph.operators, IsEmpty());
  EXPECT_EQ(graph.constants.size(), 1u);  // those on the way are gone
}

TEST(OnnxImport, DimensionsWithNamesAreGivenValues) {
  ModelProto model = identity_model();
  auto& shape = *model.mutable_graph()
                     ->mutable_input(0)
                     ->mutable_type()
                     ->mutable_tensor_type()
                     ->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("batch");
  shape.add_dim();
  expect_error(imported(model), ErrorCode::Usage, "have no value: batch, x.1; give one to each");
  expect_error(imported(model, {.dimensions = {{"batch", 2}}}), ErrorCode::Usage, ": x.1;");
  expect_error(imported(model, {.dimensions = {{"batch", 2}, {"x.1", 4}, {"length", 1}}}),
               ErrorCode::Usage, "no input has a dimension 'length'");
  expect_error(imported(model, {.dimensions = {{"batch", -2}, {"x.1", 4}}}), ErrorCode::Usage,
               "'batch' is -2");
  const Graph graph = graph_of(model, {.dimensions = {{"batch", 2}, {"x.1", 4}}});
  EXPECT_EQ(graph.inputs[0].type.shape, (std::vector<int64_t>{2, 4}));
}

TEST(OnnxImport, ADimensionIsGivenByItsPlaceWhereOthersShareItsName) {
  ModelProto model = identity_model();
  auto& shape = *model.mutable_graph()
                     ->mutable_input(0)
                     ->mutable_type()
                     ->mutable_tensor_type()
                     ->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("?");
  shape.add_dim()->set_dim_param("?");
  shape.add_dim()->set_dim_value(-1);  // not known either
  const auto extents = [&](const std::map<std::string, int64_t>& values) {
    return graph_of(model, {.dimensions = values}).inputs.at(0).type.shape;
  };
  expect_error(imported(model), ErrorCode::Usage, "have no value: ?, x.2; give one to each");
  EXPECT_THAT(extents({{"?", 2}, {"x.2", 3}}), ElementsAre(2, 2, 3));
  EXPECT_THAT(extents({{"?", 2}, {"x.1", 4}, {"x.2", 3}}), ElementsAre(2, 4, 3));
  EXPECT_THAT(extents({{"x.0", 1}, {"x.1", 4}, {"x.2", 3}}), ElementsAre(1, 4, 3));
  shape.mutable_dim(2)->set_dim_value(-2);
  expect_error(imported(model, {.dimensions = {{"?", 2}}}), ErrorCode::Invalid,
               "dimension 2 is -2");
}

TEST(OnnxImport, NamesBecomeNamesOfTensorsAndStayDistinct) {
  ModelProto model = empty_model();
  add_input(model, "x:0", {3});
  add_input(model, "x,0", {3});
  add_input(model, std::string("a\xff\n\0b", 5), {3});
  add_node(model, "Identity", {"x:0"}, {"y=(1)"});
  add_output(model, "y=(1)");
  const Graph graph = graph_of(model);
  EXPECT_EQ(graph.inputs[0].name, "x_0");
  EXPECT_EQ(graph.inputs[1].name, "x_0_1");
  EXPECT_EQ(graph.inputs[2].name, "a___b");
  EXPECT_THAT(graph.outputs, ElementsAre("y__1_"));
}

TEST(OnnxImport, TwoOutputsOfOneTensorAreTwoTensors) {
  ModelProto model = identity_model();
  add_node(model, "Identity", {"y"}, {"z"});
  add_output(model, "z");
  const Graph graph = graph_of(model);
  EXPECT_THAT(graph.outputs, ElementsAre("y", "z"));
  EXPECT_EQ(graph.operators.size(), 2u);
}

TEST(OnnxImport, AnInitializerThatIsAnInputTooIsAConstant) {
  ModelProto model = identity_model();
  add_initializer(model, floats("x", {3}, {1, 2, 3}));
  const Graph graph = graph_of(model);
  EXPECT_THAT(graph.inputs, IsEmpty());
  EXPECT_THAT(values_of(graph, "y"), ElementsAre(1, 2, 3));
}

TEST(OnnxImport, UnsortedGraphsAreSorted) {
  ModelProto model = empty_model();
  add_input(model, "x", {2, 2});
  add_node(model, "ConstantOfShape", {"s"}, {"y"});
  add_node(model, "Identity", {"r"}, {"s"});
  add_node(model, "Shape", {"x"}, {"r"});
  add_output(model, "y");
  EXPECT_EQ(graph_of(model).constants.at("y").array->shape, (std::vector<int64_t>{2, 2}));
}

TEST(OnnxImport, DeadNodesAreNotLookedAt) {
  ModelProto model = identity_model();
  add_node(model, "Nonsense", {"nothing"}, {"z"});
  add_initializer(model, tensor_of("u", TensorProto::STRING, {4}));
  EXPECT_EQ(graph_of(model).operators.size(), 1u);
}

TEST(OnnxImport, ListsItsOperators) {
  const std::vector<std::string> operators = onnx_operators();
  EXPECT_TRUE(std::ranges::is_sorted(operators));
  EXPECT_THAT(operators, testing::IsSupersetOf({"ConstantOfShape", "If", "Loop", "NonZero", "Scan",
                                                "Shape", "com.microsoft.QGemm"}));
}

// ---- functions and branches -----------------------------------------------------------------

FunctionProto& add_function(ModelProto& model, const std::string& name,
                            const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs) {
  FunctionProto& function = *model.add_functions();
  function.set_domain("local");
  function.set_name(name);
  function.add_opset_import()->set_version(17);
  for (const std::string& input : inputs) function.add_input(input);
  for (const std::string& output : outputs) function.add_output(output);
  return function;
}

TEST(OnnxImport, FunctionsOfTheModelAreInlined) {
  ModelProto model = empty_model();
  FunctionProto& function = add_function(model, "five_of", {"shape"}, {"five"});
  NodeProto& inner = add_node(function, "ConstantOfShape", {"shape"}, {"five"});
  add_attribute(inner, "value", AttributeProto::TENSOR).set_ref_attr_name("number");
  for (const std::string output : {"y", "z"}) {
    NodeProto& call = add_node(model, "five_of", {"two"}, {output});
    call.set_domain("local");
    if (output == "y")
      *add_attribute(call, "number", AttributeProto::TENSOR).mutable_t() = floats("", {1}, {5});
    add_output(model, output);
  }
  add_initializer(model, integers("two", {1}, {2}));
  const Graph graph = graph_of(model);
  EXPECT_THAT(values_of(graph, "y"), ElementsAre(5, 5));
  EXPECT_THAT(values_of(graph, "z"), ElementsAre(0, 0));  // the attribute is absent
}

TEST(OnnxImport, AFunctionHasDefaultsAndInputsThatAreLeftOut) {
  ModelProto model = empty_model();
  FunctionProto& function = add_function(model, "f", {"shape", "unused"}, {"out"});
  AttributeProto& otherwise = *function.add_attribute_proto();
  otherwise.set_name("number");
  otherwise.set_type(AttributeProto::TENSOR);
  *otherwise.mutable_t() = floats("", {1}, {7});
  NodeProto& inner = add_node(function, "ConstantOfShape", {"shape"}, {"out"});
  add_attribute(inner, "value", AttributeProto::TENSOR).set_ref_attr_name("number");
  add_node(model, "f", {"one"}, {"y"}).set_domain("local");
  add_initializer(model, integers("one", {1}, {1}));
  add_output(model, "y");
  EXPECT_THAT(values_of(graph_of(model), "y"), ElementsAre(7));
}

/// y = If(condition): then the branch gives `then_value`, else x, which is of the scope around it.
ModelProto if_model(bool condition) {
  ModelProto model = empty_model();
  add_input(model, "x", {1});
  TensorProto chosen = tensor_of("c", TensorProto::BOOL, {});
  chosen.add_int32_data(condition);
  add_initializer(model, chosen);
  NodeProto& node = add_node(model, "If", {"c"}, {"y"}, "choice");
  GraphProto& on_true = *add_attribute(node, "then_branch", AttributeProto::GRAPH).mutable_g();
  *on_true.add_initializer() = floats("w", {1}, {4});
  add_node(on_true, "Identity", {"w"}, {"v"});
  add_output(on_true, "v");
  GraphProto& on_false = *add_attribute(node, "else_branch", AttributeProto::GRAPH).mutable_g();
  add_node(on_false, "Identity", {"x"}, {"v"});
  add_output(on_false, "v");
  add_output(model, "y");
  return model;
}

TEST(OnnxImport, AConditionThatIsKnownChoosesItsBranch) {
  EXPECT_THAT(values_of(graph_of(if_model(true)), "y"), ElementsAre(4));
  const Graph graph = graph_of(if_model(false));
  ASSERT_EQ(graph.operators.size(), 1u);
  EXPECT_THAT(graph.operators[0].inputs, ElementsAre("x"));
}

TEST(OnnxImport, AConditionThatIsDataChoosesFromBothBranches) {
  ModelProto model = if_model(true);
  model.mutable_graph()->clear_initializer();
  add_input(model, "c", {1}, TensorProto::BOOL);
  const auto read = parse_onnx(model.SerializeAsString(), "");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->warnings,
              ElementsAre(HasSubstr("node 'choice' (If): its condition is not known "
                                    "at import, so both branches are computed")));
  dsl::Arrays inputs = {{"x", dsl::Array::make(Float32, {1}).value()},
                        {"c", dsl::Array::make(Bool, {1}).value()}};
  inputs.at("x").set_float(0, 9);
  for (const bool holds : {false, true}) {
    inputs.at("c").set_int(0, holds);
    const auto results = interpret(read->graph, inputs);
    ASSERT_TRUE(results) << results.error().message;
    EXPECT_EQ(results->at("y").get_float(0), holds ? 4 : 9);
  }
}

TEST(OnnxImport, Fault58_AConditionThatIsDataAndBranchesOfOtherShapes) {
  ModelProto model = if_model(true);
  model.mutable_graph()->clear_initializer();
  add_input(model, "c", {}, TensorProto::BOOL);
  auto& then_branch = *model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g();
  *then_branch.mutable_initializer(0) = floats("w", {2}, {4, 4});
  expect_unsupported(model,
                     "node 'choice' (If): its condition is not known at import, and its branches "
                     "give f32[2] and f32[1]; --constant NAME=VALUE gives");
  EXPECT_TRUE(imported(model, {.constants = {{"c", {1}}}}));
}

TEST(OnnxImport, InputsThatAreGivenValuesAreConstants) {
  ModelProto model = if_model(true);
  model.mutable_graph()->clear_initializer();
  add_input(model, "c", {}, TensorProto::BOOL);
  EXPECT_THAT(values_of(graph_of(model, {.constants = {{"c", {1}}}}), "y"), ElementsAre(4));
  const Graph graph = graph_of(model, {.constants = {{"c", {0}}}});
  EXPECT_THAT(graph.inputs, ElementsAre(Port{"x", {Float32, {1}}}));
  const auto refused = [&](const OnnxOptions& options, const std::string& why) {
    expect_error(imported(model, options), ErrorCode::Usage, why);
  };
  refused({.constants = {{"d", {1}}}}, "no input 'd' that could be a constant; there are c, x");
  refused({.constants = {{"c", {0, 1}}}}, "the constant 'c': 2 values, but the input is bool[]");
  refused({.constants = {{"c", {2}}}}, "the constant 'c': 2 is no bool");
  refused({.constants = {{"c", {0.5}}}}, "the constant 'c': 0.5 is no bool");
  refused({.constants = {{"c", {std::nan("")}}}}, "is no bool");
}

// ---- loops ------------------------------------------------------------------------------------

/// A body graph of the node in which `s_out` = s_in + x k, and `row` is x.
GraphProto& add_body(NodeProto& node, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) {
  GraphProto& body = *add_attribute(node, "body", AttributeProto::GRAPH).mutable_g();
  for (const std::string& input : inputs) body.add_input()->set_name(input);
  add_node(body, "Mul", {"x", "k"}, {"scaled"});
  add_node(body, "Add", {"s_in", "scaled"}, {"s_out"});
  add_node(body, "Identity", {"x"}, {"row"});
  for (const std::string& output : outputs) add_output(body, output);
  return body;
}

/// A Scan along dimension 1 of xs [2, 3], where k of the body is an input of the model.
ModelProto scan_model(int64_t input_direction = 0, int64_t output_direction = 0,
                      int64_t output_axis = 0) {
  ModelProto model = empty_model();
  add_input(model, "s0", {2});
  add_input(model, "xs", {2, 3});
  add_input(model, "k", {2});
  NodeProto& node = add_node(model, "Scan", {"s0", "xs"}, {"s", "rows"}, "scan");
  const auto set = [&](const char* name, int64_t value) {
    add_attribute(node, name, AttributeProto::INTS).add_ints(value);
  };
  add_attribute(node, "num_scan_inputs", AttributeProto::INT).set_i(1);
  set("scan_input_axes", 1);
  set("scan_input_directions", input_direction);
  set("scan_output_directions", output_direction);
  set("scan_output_axes", output_axis);
  add_body(node, {"s_in", "x"}, {"s_out", "row"});
  add_output(model, "s");
  add_output(model, "rows");
  return model;
}

std::vector<double> scanned(const ModelProto& model, const std::string& output) {
  const Graph graph = graph_of(model);
  EXPECT_EQ(graph.loops.size(), 1u);
  dsl::Arrays inputs;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape,
                       const std::vector<double>& values) {
    inputs[name] = dsl::Array::make(Float32, std::move(shape)).value();
    for (size_t i = 0; i < values.size(); ++i)
      inputs[name].set_float(static_cast<int64_t>(i), values[i]);
  };
  add("s0", {2}, {100, 200});
  add("xs", {2, 3}, {1, 2, 3, 10, 20, 30});
  add("k", {2}, {1, 2});
  const auto values = interpret(graph, inputs);
  EXPECT_TRUE(values) << values.error().message;
  std::vector<double> elements;
  for (int64_t i = 0; values && i < values->at(output).size(); ++i)
    elements.push_back(values->at(output).get_float(i));
  return elements;
}

TEST(OnnxImport, AScanIsALoop) {
  EXPECT_THAT(scanned(scan_model(), "s"), ElementsAre(106, 320));
  EXPECT_THAT(scanned(scan_model(), "rows"), ElementsAre(1, 10, 2, 20, 3, 30));
  EXPECT_THAT(scanned(scan_model(1), "rows"), ElementsAre(3, 30, 2, 20, 1, 10));
  EXPECT_THAT(scanned(scan_model(0, 1), "rows"), ElementsAre(3, 30, 2, 20, 1, 10));
  EXPECT_THAT(scanned(scan_model(1, 1), "rows"), ElementsAre(1, 10, 2, 20, 3, 30));
  EXPECT_THAT(scanned(scan_model(0, 0, 1), "rows"), ElementsAre(1, 2, 3, 10, 20, 30));
}

/// A Loop of `trips` trips in which x is the number of the trip, and k a weight of the body.
ModelProto loop_model(int64_t trips, bool holds = true) {
  ModelProto model = empty_model();
  add_input(model, "s0", {1});
  add_initializer(model, integers("count", {}, {trips}));
  TensorProto condition = tensor_of("holds", TensorProto::BOOL, {});
  condition.add_int32_data(holds);
  add_initializer(model, condition);
  NodeProto& node = add_node(model, "Loop", {"count", "holds", "s0"}, {"s", "rows"}, "loop");
  GraphProto& body = add_body(node, {"i", "c_in", "s_in"}, {"c_out", "s_out", "row"});
  NodeProto& number = *body.mutable_node()->Add();
  number.set_op_type("Cast");
  number.add_input("i");
  number.add_output("x");
  add_attribute(number, "to", AttributeProto::INT).set_i(TensorProto::FLOAT);
  add_node(body, "Identity", {"c_in"}, {"c_out"});
  *body.add_initializer() = floats("k", {1}, {10});
  add_output(model, "s");
  add_output(model, "rows");
  return model;
}

TEST(OnnxImport, ALoopOfAKnownNumberOfTripsIsALoop) {
  const Graph graph = graph_of(loop_model(4));
  ASSERT_EQ(graph.loops.size(), 1u);
  EXPECT_EQ(graph.loops[0].trips, 4);
  dsl::Arrays inputs;
  inputs["s0"] = dsl::Array::make(Float32, {1}).value();
  inputs["s0"].set_float(0, 7);
  const auto values = interpret(graph, inputs);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->at("s").get_float(0), 7 + 10 * (0 + 1 + 2 + 3));
  ASSERT_EQ(values->at("rows").shape, (std::vector<int64_t>{4}));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(values->at("rows").get_float(i), i);
}

TEST(OnnxImport, Fault58_LoopsThatAreNotKnownAtImportAreUnsupported) {
  expect_unsupported(loop_model(0), "node 'loop' (Loop): results of all trips of a loop without");
  expect_unsupported(loop_model(4, false), "results of all trips of a loop without trips");
  ModelProto counted = loop_model(4);
  counted.mutable_graph()->mutable_initializer()->DeleteSubrange(0, 1);
  add_input(counted, "count", {}, TensorProto::INT64);
  expect_unsupported(counted, "node 'loop' (Loop): its input 'count' is not known at import");
  ModelProto conditional = loop_model(4);
  GraphProto& body =
      *conditional.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g();
  body.mutable_node(4)->set_op_type("Less");
  body.mutable_node(4)->set_input(0, "x");
  body.mutable_node(4)->add_input("k");
  expect_unsupported(conditional, "its condition after a trip is not known at import to hold");
  ModelProto changing = scan_model();
  changing.mutable_graph()
      ->mutable_node(0)
      ->mutable_attribute(5)
      ->mutable_g()
      ->mutable_node(1)
      ->set_op_type("Greater");
  expect_unsupported(changing, "a state of its loop is f32[2] before a trip and bool[2] after it");
}

TEST(OnnxImport, ALoopWhoseBodyDoesNotFitIsInvalid) {
  ModelProto model = scan_model();
  model.mutable_graph()
      ->mutable_node(0)
      ->mutable_attribute(5)
      ->mutable_g()
      ->mutable_output()
      ->RemoveLast();
  expect_invalid(model, "node 'scan' (Scan): its body has other inputs or outputs than it");
}

// ---- tensors ----------------------------------------------------------------------------------

TEST(OnnxImport, ReadsTensorsOfEachType) {
  EXPECT_THAT(constant_value(floats("w", {2}, {1.5, -2})), ElementsAre(1.5, -2));
  EXPECT_THAT(constant_value(integers("w", {2}, {1, -2})), ElementsAre(1, -2));
  const std::map<int32_t, std::vector<double>> expected = {
      {TensorProto::UINT8, {1, 0}},         {TensorProto::INT8, {1, 0}},
      {TensorProto::UINT16, {1, 0}},        {TensorProto::INT16, {1, 0}},
      {TensorProto::INT32, {1, 0}},         {TensorProto::BOOL, {1, 0}},
      {TensorProto::FLOAT16, {0x1p-24, 0}}, {TensorProto::BFLOAT16, {0x1p-133, 0}}};
  for (const auto& [type, values] : expected) {
    TensorProto tensor = tensor_of("w", type, {2});
    tensor.add_int32_data(1);
    tensor.add_int32_data(0);
    EXPECT_THAT(constant_value(tensor), testing::ElementsAreArray(values)) << type;
  }
}

TEST(OnnxImport, UnsignedNumbersOf32BitsAreKept) {
  TensorProto tensor = tensor_of("w", TensorProto::UINT32, {2});
  tensor.add_uint64_data(4294967295);
  tensor.add_uint64_data(0);
  EXPECT_THAT(constant_value(tensor), ElementsAre(4294967295.0, 0));
  tensor.set_uint64_data(0, 4294967296);
  expect_invalid(constant_model(tensor), "tensor 'w': 4294967296 is no u32");
}

TEST(OnnxImport, DoublesKeepTheirDigits) {
  TensorProto tensor = tensor_of("w", TensorProto::DOUBLE, {1});
  tensor.add_double_data(0.1);
  EXPECT_THAT(constant_value(tensor), ElementsAre(0.1));
  tensor.clear_double_data();
  const double value = 0.2;
  tensor.set_raw_data(&value, sizeof value);
  EXPECT_THAT(constant_value(tensor), ElementsAre(0.2));
}

TEST(OnnxImport, RawDataOfBoolsAreZeroOrOne) {
  TensorProto tensor = tensor_of("w", TensorProto::BOOL, {3});
  tensor.set_raw_data(std::string("\0\1\7", 3));
  EXPECT_THAT(constant_value(tensor), ElementsAre(0, 1, 1));
}

// ---- 57: damage ---------------------------------------------------------------------------------

TEST(OnnxImport, Fault57_EveryPrefixOfAModelIsAnError) {
  const std::string bytes = if_model(true).SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto graph = parse_onnx(std::string_view(bytes).substr(0, size), "");
    EXPECT_FALSE(graph) << size;
  }
}

TEST(OnnxImport, Fault57_WhatIsNoModelIsInvalid) {
  expect_error(parse_onnx("", ""), ErrorCode::Invalid, "this is no model");
  expect_error(parse_onnx("hello, world", ""), ErrorCode::Invalid, "cannot be read");
  ModelProto model = identity_model();
  model.set_ir_version(99);
  expect_unsupported(model, "version 99 of the format");
}

TEST(OnnxImport, Fault57_AMessageOfTwoGigabytes) {
  // field 7, the graph: 2^31 - 1 bytes that are not there
  expect_error(parse_onnx("\x08\x08\x3a\xff\xff\xff\xff\x07", ""), ErrorCode::Invalid,
               "cannot be read");
}

TEST(OnnxImport, Fault57_AFieldOfAWrongWireTypeIsNotLost) {
  ModelProto model = identity_model();
  model.mutable_graph()->mutable_node(0)->mutable_unknown_fields()->append("\x18\x01", 2);
  expect_invalid(model, "node 'same' (Identity): field 3 has a wrong type or value");
  model = constant_model(floats("w", {1}, {1}));
  model.mutable_graph()->mutable_initializer(0)->mutable_unknown_fields()->append("\x70\x07", 2);
  expect_invalid(model, "tensor 'w': field 14");
}

TEST(OnnxImport, Fault57_FieldsOfLaterSchemasAreSkipped) {
  ModelProto model = identity_model();
  model.mutable_graph()->mutable_node(0)->mutable_unknown_fields()->append("\xb8\x01\x01", 3);
  EXPECT_TRUE(imported(model));
}

TEST(OnnxImport, Fault57_DataThatDoNotFillTheShape) {
  TensorProto tensor = tensor_of("w", TensorProto::FLOAT, {2});
  expect_invalid(constant_model(tensor), "tensor 'w': it has no data, expected 2 elements");
  for (const size_t size : {1u, 7u, 9u, 12u}) {
    tensor.set_raw_data(std::string(size, 'x'));
    expect_invalid(constant_model(tensor),
                   fmt::format("tensor 'w': raw_data has {} bytes, expected 8", size));
  }
  expect_invalid(constant_model(floats("w", {2}, {1})), "float_data has 1 elements, expected 2");
  expect_invalid(constant_model(floats("w", {2}, {1, 2, 3})), "float_data has 3 elements");
}

TEST(OnnxImport, Fault57_DataInTwoFields) {
  TensorProto tensor = floats("w", {1}, {1});
  tensor.set_raw_data("abcd");
  expect_invalid(constant_model(tensor), "its elements are in float_data and in raw_data");
  tensor = floats("w", {1}, {1});
  tensor.add_int32_data(1);
  expect_invalid(constant_model(tensor), "its elements are in float_data and in int32_data");
}

TEST(OnnxImport, Fault57_DataInTheFieldOfAnotherType) {
  TensorProto tensor = floats("w", {1}, {1});
  tensor.set_data_type(TensorProto::INT64);
  expect_invalid(constant_model(tensor), "its elements are in float_data, expected int64_data");
}

TEST(OnnxImport, Fault57_NumbersOutsideOfTheirType) {
  TensorProto tensor = tensor_of("w", TensorProto::UINT8, {1});
  tensor.add_int32_data(256);
  expect_invalid(constant_model(tensor), "tensor 'w': 256 is no u8");
}

TEST(OnnxImport, Fault57_ShapesThatCannotBe) {
  expect_invalid(constant_model(tensor_of("w", TensorProto::FLOAT, {-1})), "a dimension is -1");
  const int64_t large = int64_t{1} << 40;
  expect_invalid(constant_model(tensor_of("w", TensorProto::FLOAT, {large, large})),
                 "more elements than can be counted");
  expect_invalid(constant_model(tensor_of("w", TensorProto::FLOAT, {large})), "it has no data");
  expect_unsupported(
      constant_model(tensor_of("w", TensorProto::FLOAT, std::vector<int64_t>(1000, 1))),
      "1000 dimensions");
}

TEST(OnnxImport, Fault57_AttributesOfTwoKinds) {
  ModelProto model = identity_model();
  NodeProto& node = *model.mutable_graph()->mutable_node(0);
  AttributeProto& attribute = add_attribute(node, "axis", AttributeProto::INT);
  attribute.set_i(1);
  attribute.set_f(1);
  expect_invalid(model, "node 'same' (Identity): its attribute 'axis' has a value of another kind");
  attribute.clear_i();
  expect_invalid(model, "its attribute 'axis' has a value of another kind");
  attribute.clear_f();
  add_attribute(node, "axis", AttributeProto::INT);
  expect_invalid(model, "its attribute 'axis' is given twice");
}

// ---- 58: what is not implemented ----------------------------------------------------------------

TEST(OnnxImport, Fault58_AllThatIsUnsupportedIsListedAtOnce) {
  ModelProto model = empty_model();
  add_input(model, "x", {3});
  add_node(model, "Nonsense", {"x"}, {"a"}, "first");
  add_node(model, "Identity", {"a"}, {"b"}, "behind");
  add_node(model, "OtherNonsense", {"b"}, {"c"}, "second");
  add_node(model, "Identity", {"c"}, {"d"}, "third").set_domain("com.example");
  add_node(model, "Identity", {"s"}, {"e"}, "fourth");
  add_initializer(model, tensor_of("s", TensorProto::UINT64, {1}));
  add_output(model, "d");
  add_output(model, "e");
  const auto graph = imported(model);
  expect_error(graph, ErrorCode::Unsupported, "4 parts of the model are not implemented:\n");
  const std::string& message = graph.error().message;
  EXPECT_THAT(message, HasSubstr("\n  node 'first' (Nonsense): not implemented at opset 17\n"));
  EXPECT_THAT(message, HasSubstr("\n  node 'second' (OtherNonsense): not implemented"));
  EXPECT_THAT(message, HasSubstr("\n  node 'third' (Identity): the domain 'com.example'"));
  EXPECT_THAT(message, HasSubstr("\n  tensor 's': the element type uint64 is not implemented"));
  EXPECT_THAT(message, Not(HasSubstr("behind")));
}

TEST(OnnxImport, OperatorsOfOnnxRuntimeHaveADomainOfTheirOwn) {
  ModelProto model = empty_model();
  add_input(model, "x", {3});
  add_node(model, "QuickGelu", {"x"}, {"y"}, "known").set_domain("com.microsoft");
  add_output(model, "y");
  EXPECT_FALSE(graph_of(model).operators.empty());
  add_node(model, "BeamSearch", {"x"}, {"z"}, "unknown").set_domain("com.microsoft");
  add_output(model, "z");
  expect_unsupported(
      model, "[onnx] node 'unknown' (BeamSearch): not implemented of the domain 'com.microsoft'");
  model.mutable_graph()->mutable_node(0)->clear_domain();
  expect_unsupported(model, "node 'known' (QuickGelu): not implemented at opset 17");
}

TEST(OnnxImport, Fault58_NodesThatLackTheSameAreOneLine) {
  ModelProto model = empty_model();
  add_input(model, "x", {3});
  for (int i = 0; i < 48; ++i) {
    add_node(model, "Nonsense", {"x"}, {fmt::format("y{}", i)}, fmt::format("n{}", i));
    add_output(model, fmt::format("y{}", i));
  }
  expect_unsupported(model,
                     "[onnx] 48 nodes (Nonsense): not implemented at opset 17; the first is 'n0'");
  add_node(model, "Other", {"x"}, {"z"}, "single");
  add_output(model, "z");
  expect_unsupported(model,
                     "49 parts of the model are not implemented:\n"
                     "  48 nodes (Nonsense): not implemented at opset 17; the first is 'n0'\n"
                     "  node 'single' (Other): not implemented at opset 17");
}

TEST(OnnxImport, Fault58_Opsets) {
  for (const int64_t opset : {5, 29, 1000})
    expect_unsupported(
        [&] {
          ModelProto model = identity_model();
          model.mutable_opset_import(0)->set_version(opset);
          return model;
        }(),
        fmt::format("opset {} is not implemented, expected 6 to 28", opset));
  ModelProto model = identity_model();
  model.clear_opset_import();
  expect_invalid(model, "node 'same' (Identity): the model imports no opset");
  model.add_opset_import()->set_version(-3);
  expect_invalid(model, "there is no opset -3");
  model.mutable_opset_import(0)->set_version(17);
  model.add_opset_import()->set_domain("ai.onnx");
  model.mutable_opset_import(1)->set_version(18);
  expect_invalid(model, "the opsets 17 and 18 are both imported");
}

TEST(OnnxImport, Fault58_TheDomainHasTwoNames) {
  ModelProto model = identity_model();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  EXPECT_TRUE(imported(model));
}

TEST(OnnxImport, Fault58_InputsOfOtherTypes) {
  ModelProto model = empty_model();
  add_input(model, "x", {3}, TensorProto::STRING);
  add_node(model, "Identity", {"x"}, {"y"});
  add_output(model, "y");
  expect_unsupported(model, "input 'x': the element type string is not implemented");
  auto& type = *model.mutable_graph()->mutable_input(0)->mutable_type();
  type.mutable_tensor_type()->set_elem_type(77);
  expect_invalid(model, "input 'x': 77 is no element type");
  type.mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  type.mutable_tensor_type()->clear_shape();
  expect_unsupported(model, "input 'x': its number of dimensions is not known");
  type.mutable_sequence_type();
  expect_unsupported(model, "input 'x': its type is not implemented");
}

TEST(OnnxImport, Fault58_SparseInitializers) {
  ModelProto model = identity_model();
  model.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("w");
  EXPECT_TRUE(imported(model));
  model.mutable_graph()->mutable_node(0)->set_input(0, "w");
  expect_unsupported(model, "tensor 'w': sparse tensors are not implemented");
}

TEST(OnnxImport, Fault58_AnOutputThatIsNotImplemented) {
  ModelProto model = empty_model(7);
  add_input(model, "x", {3});
  add_node(model, "Dropout", {"x"}, {"y", "mask"}, "drop");
  add_output(model, "mask");
  expect_unsupported(model, "node 'drop' (Dropout): its output 1 is not implemented");
}

// ---- 59: names and order --------------------------------------------------------------------

TEST(OnnxImport, Fault59_CyclesNameANodeOnThem) {
  ModelProto model = empty_model();
  add_node(model, "Identity", {"c"}, {"a"}, "one");
  add_node(model, "Identity", {"a"}, {"b"}, "two");
  add_node(model, "Identity", {"b"}, {"a2"}, "behind");
  add_node(model, "Identity", {"b"}, {"c"}, "three");
  add_output(model, "a2");
  const auto graph = imported(model);
  expect_error(graph, ErrorCode::Invalid, "(Identity): it needs its own output");
  EXPECT_THAT(graph.error().message, Not(HasSubstr("behind")));
  ModelProto itself = identity_model();
  itself.mutable_graph()->mutable_node(0)->set_input(0, "y");
  expect_invalid(itself, "node 'same' (Identity): it needs its own output");
}

TEST(OnnxImport, Fault59_NamesThatAreGivenTwice) {
  ModelProto model = identity_model();
  add_node(model, "Identity", {"x"}, {"y"}, "again");
  expect_invalid(model, "node 'again' (Identity): 'y' is given twice");
  model = identity_model();
  model.mutable_graph()->mutable_node(0)->set_output(0, "x");
  expect_invalid(model, "node 'same' (Identity): 'x' is given twice");
  model = identity_model();
  add_input(model, "x", {1});
  expect_invalid(model, "the input 'x' is given twice");
  model = identity_model();
  add_output(model, "y");
  expect_invalid(model, "the output 'y' is given twice");
  model = constant_model(floats("w", {1}, {1}));
  add_initializer(model, floats("w", {1}, {1}));
  expect_invalid(model, "the initializer 'w' is given twice");
}

/// y = x, of f32[1, 2, 3], whose output is declared so; a negative extent stands for a symbol.
ModelProto model_with_output(const std::vector<int64_t>& shape, int32_t type = TensorProto::FLOAT) {
  ModelProto model = empty_model();
  add_input(model, "x", {1, 2, 3});
  add_node(model, "Identity", {"x"}, {"y"}, "same");
  add_output(model, "y");
  auto& tensor = *model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  for (const int64_t extent : shape) {
    auto& dimension = *tensor.mutable_shape()->add_dim();
    if (extent < 0)
      dimension.set_dim_param("batch");
    else
      dimension.set_dim_value(extent);
  }
  return model;
}

TEST(OnnxImport, Fault59_OutputsThatAreDeclaredOtherwise) {
  const auto warnings = [](const ModelProto& model) {
    const auto read = parse_onnx(model.SerializeAsString(), "");
    return read ? read->warnings : std::vector<std::string>{"[error] " + read.error().message};
  };
  EXPECT_THAT(
      warnings(model_with_output({1, 2, 4})),
      ElementsAre("the output 'y' is declared as f32[1, 2, 4], but its nodes give f32[1, 2, "
                  "3]"));
  EXPECT_THAT(warnings(model_with_output({-1, 6})), ElementsAre(HasSubstr("as f32[batch, 6]")));
  EXPECT_THAT(warnings(model_with_output({1, 2, 3})), IsEmpty());
  expect_invalid(model_with_output({1, 2, 3}, TensorProto::INT64),
                 "declared as i64[1, 2, 3], but its nodes give f32[1, 2, 3]");
  ModelProto shapeless = model_with_output({}, TensorProto::FLOAT16);
  expect_invalid(shapeless, "declared as f16, but its nodes give f32[1, 2, 3]");
}

TEST(OnnxImport, OutputsNeedNoTypeAndMayHaveSymbolicDimensions) {
  const auto accepts = [](const ModelProto& model) { return imported(model).has_value(); };
  EXPECT_TRUE(accepts(model_with_output({1, 2, 3})));
  EXPECT_TRUE(accepts(model_with_output({-1, 2, -1})));
  EXPECT_TRUE(accepts(model_with_output({}, TensorProto::UNDEFINED)));
  ModelProto unknown = model_with_output({-1, 2, 3});
  auto& shape = *unknown.mutable_graph()
                     ->mutable_output(0)
                     ->mutable_type()
                     ->mutable_tensor_type()
                     ->mutable_shape();
  shape.mutable_dim(0)->clear_dim_param();
  EXPECT_TRUE(accepts(unknown));
}

TEST(OnnxImport, Fault59_NamesThatNothingGives) {
  ModelProto model = identity_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "z");
  expect_invalid(model, "node 'same' (Identity): it reads 'z', which nothing gives");
  model = identity_model();
  add_output(model, "z");
  expect_invalid(model, "no node gives the output 'z'");
  model = identity_model();
  model.mutable_graph()->clear_output();
  expect_invalid(model, "has no outputs");
  model = identity_model();
  model.mutable_graph()->mutable_node(0)->clear_input();
  expect_invalid(model, "node 'same' (Identity): input 0 is left out");
}

TEST(OnnxImport, Fault59_AFunctionThatCallsItself) {
  ModelProto model = identity_model();
  FunctionProto& function = add_function(model, "f", {"a"}, {"b"});
  add_node(function, "f", {"a"}, {"b"}, "inner").set_domain("local");
  NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f");
  expect_invalid(model, "functions and branches nest more than 64 levels");
}

TEST(OnnxImport, Fault59_FunctionsThatNest3000Deep) {
  ModelProto model = identity_model();
  const int depth = 3000;
  for (int i = 0; i < depth; ++i) {
    FunctionProto& function = add_function(model, fmt::format("f{}", i), {"a"}, {"b"});
    NodeProto& inner = add_node(function, "Identity", {"a"}, {"b"});
    if (i + 1 == depth) continue;
    inner.set_op_type(fmt::format("f{}", i + 1));
    inner.set_domain("local");
  }
  NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f0");
  expect_invalid(model, "nest more than 64 levels");
  call.set_op_type(fmt::format("f{}", depth - 60));
  EXPECT_TRUE(imported(model));
}

TEST(OnnxImport, Fault59_FunctionsThatStandForTooManyNodes) {
  ModelProto model = identity_model();
  for (int i = 0; i < 40; ++i) {  // each calls the next one twice
    FunctionProto& function = add_function(model, fmt::format("f{}", i), {"a"}, {"c"});
    const std::string next = i == 39 ? "Identity" : fmt::format("f{}", i + 1);
    for (const auto& [from, to] : {std::pair{"a", "b"}, std::pair{"b", "c"}})
      add_node(function, next, {from}, {to}).set_domain(i == 39 ? "" : "local");
  }
  NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f0");
  expect_unsupported(model, "more than 100000 nodes");
}

/// Tag and length of a field that holds `size` bytes.
std::string field_header(int number, size_t size) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  for (; size >= 0x80; size >>= 7) bytes += static_cast<char>(size | 0x80);
  return bytes + static_cast<char>(size);
}

TEST(OnnxImport, Fault59_ALargeBranchOfAFunctionThatIsCalledOften) {
  ModelProto model = identity_model();
  model.mutable_graph()->clear_node();
  FunctionProto& function = add_function(model, "f", {"a"}, {"b"});
  add_node(function, "Identity", {"a"}, {"b"});
  NodeProto& choice = add_node(function, "If", {"a"}, {"unused"});
  GraphProto& branch = *add_attribute(choice, "then_branch", AttributeProto::GRAPH).mutable_g();
  for (int i = 0; i < 10'000; ++i) add_node(branch, "Identity", {"a"}, {fmt::format("t{}", i)});
  std::string last = "x";
  for (int i = 0; i < 1'000; ++i) {
    const std::string next = i == 999 ? "y" : fmt::format("t{}", i);
    add_node(model, "f", {last}, {next}).set_domain("local");
    last = next;
  }
  expect_unsupported(model, "or 5000000 names");
}

TEST(OnnxImport, Fault59_BranchesThatNest10000Deep) {
  // A graph (field 7) with a node (1) with an attribute (5) with a graph (6) with a node ...
  std::vector<std::string> headers;
  size_t size = 0;
  for (int i = 0; i < 10'000; ++i)
    for (const int number : {6, 5, 1}) {
      headers.push_back(field_header(number, size));
      size += headers.back().size();
    }
  headers.push_back(field_header(7, size));
  std::string bytes = "\x08\x08";
  for (auto header = headers.rbegin(); header != headers.rend(); ++header) bytes += *header;
  expect_error(parse_onnx(bytes, ""), ErrorCode::Invalid, "nests messages more than 100 deep");
}

TEST(OnnxImport, Fault59_FunctionsWithWrongNames) {
  ModelProto model = identity_model();
  FunctionProto& function = add_function(model, "f", {"a", "a"}, {"b"});
  expect_invalid(model, "function 'f': 'a' is given twice");
  function.mutable_input()->RemoveLast();
  NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f");
  expect_invalid(model, "'b'");
  call.add_input("x");
  expect_invalid(model, "more inputs or outputs than that has");
  *model.add_functions() = function;
  expect_invalid(model, "the function 'f' is given twice");
}

TEST(OnnxImport, Fault79_AChainOf10000Nodes) {
  ModelProto model = empty_model();
  add_input(model, "x", {3});
  std::string last = "x";
  for (int i = 0; i < 10'000; ++i) {
    const std::string next = fmt::format("t{}", i);
    add_node(model, "Identity", {last}, {next});
    last = next;
  }
  add_output(model, last);
  EXPECT_EQ(graph_of(model).operators.size(), 1u);
}

// ---- 60: external data --------------------------------------------------------------------------

class OnnxExternalData : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "tw_onnx_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    root_ = folder;
    std::filesystem::create_directories(root_ / "model" / "data");
    write("model/data/w.bin");
    write("outside.bin");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name) {
    std::ofstream(root_ / name, std::ios::binary) << std::string("\0\0\x80\x3f\0\0\0\x40", 8);
  }

  /// A tensor of `count` floats in a file.
  Result<Graph> read(const std::string& location, int64_t count = 2,
                     const std::map<std::string, std::string>& entries = {}) {
    TensorProto tensor = tensor_of("w", TensorProto::FLOAT, {count});
    tensor.set_data_location(TensorProto::EXTERNAL);
    std::map<std::string, std::string> all = entries;
    all["location"] = location;
    for (const auto& [key, value] : all) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return imported(constant_model(tensor), {}, (root_ / "model").string());
  }

  void expect_refused(const std::string& location, const std::string& why) {
    expect_error(read(location), ErrorCode::Invalid, why);
  }

  std::filesystem::path root_;
};

TEST_F(OnnxExternalData, IsReadBelowTheFolder) {
  const auto graph = read("data/w.bin");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_THAT(values_of(*graph, "w"), ElementsAre(1, 2));
  const auto part = read("data/../data/w.bin", 1, {{"offset", "4"}, {"length", "4"}});
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_THAT(values_of(*part, "w"), ElementsAre(2));
}

TEST_F(OnnxExternalData, Fault60_PathsThatLeadOutside) {
  expect_refused("../outside.bin", "outside of the model's folder");
  expect_refused("data/../../outside.bin", "outside of the model's folder");
  expect_refused((root_ / "outside.bin").string(), "outside of the model's folder");
  expect_refused(std::string("data/w.bin\0x", 12), "a zero byte");
}

TEST_F(OnnxExternalData, Fault60_Links) {
  std::filesystem::create_symlink(root_ / "outside.bin", root_ / "model/link.bin");
  expect_refused("link.bin", "a symbolic link leads out of the folders of the model");
  std::filesystem::create_directory_symlink(root_, root_ / "model/parent");
  expect_refused("parent/outside.bin", "a symbolic link leads out of the folders of the model");
  std::filesystem::create_symlink("loop.bin", root_ / "model/loop.bin");
  expect_error(read("loop.bin"), ErrorCode::Environment, "cannot be read");
  std::filesystem::create_symlink("data/w.bin", root_ / "model/inner.bin");
  EXPECT_TRUE(read("inner.bin"));
  std::filesystem::create_hard_link(root_ / "outside.bin", root_ / "model/hard.bin");
  EXPECT_TRUE(read("hard.bin"));
}

// snapshot/m.onnx -> ../blobs/aa and snapshot/w.bin -> ../blobs/bb, as caches of downloads have it.
TEST_F(OnnxExternalData, LinksMayLeadToTheFolderOfTheModelsOwnFile) {
  std::filesystem::create_directories(root_ / "blobs");
  std::filesystem::create_directories(root_ / "snapshot");
  TensorProto tensor = tensor_of("w", TensorProto::FLOAT, {2});
  tensor.set_data_location(TensorProto::EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  const auto write_model = [&](const std::string& location) {
    tensor.mutable_external_data(0)->set_value(location);
    std::ofstream(root_ / "blobs/aa", std::ios::binary)
        << constant_model(tensor).SerializeAsString();
    return read_onnx((root_ / "snapshot/m.onnx").string());
  };
  write("blobs/bb");
  std::filesystem::create_symlink("../blobs/aa", root_ / "snapshot/m.onnx");
  std::filesystem::create_symlink("../blobs/bb", root_ / "snapshot/w.bin");
  std::filesystem::create_symlink("../outside.bin", root_ / "snapshot/far.bin");
  const auto model = write_model("w.bin");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(values_of(model->graph, "w"), ElementsAre(1, 2));
  expect_error(write_model("far.bin"), ErrorCode::Invalid,
               "a symbolic link leads out of the folders of the model");
  expect_error(write_model("../blobs/bb"), ErrorCode::Invalid, "outside of the model's folder");
}

TEST_F(OnnxExternalData, Fault60_WhatIsNoFile) {
  expect_refused("data", "no regular file");
  ASSERT_EQ(mkfifo((root_ / "model/pipe").c_str(), 0600), 0);
  expect_refused("pipe", "no regular file");
  expect_error(read("none.bin"), ErrorCode::Environment, "cannot be read");
}

TEST_F(OnnxExternalData, Fault60_RangesThatAreNotInTheFile) {
  const std::string huge = "9223372036854775807";
  expect_error(read("data/w.bin", 3), ErrorCode::Invalid, "8 bytes, expected 12");
  expect_error(read("data/w.bin", 3, {{"length", "12"}}), ErrorCode::Invalid, "more than its 8");
  expect_error(read("data/w.bin", 2, {{"offset", huge}}), ErrorCode::Invalid, "offset");
  expect_error(read("data/w.bin", 2, {{"offset", "4"}, {"length", "8"}}), ErrorCode::Invalid,
               "8 bytes from 4 on are more than its 8 bytes");
  expect_error(read("data/w.bin", 2, {{"offset", "8"}, {"length", huge}}), ErrorCode::Invalid,
               "expected 8");
  expect_error(read("data/w.bin", 2, {{"offset", "-4"}}), ErrorCode::Invalid, "no number of bytes");
  expect_error(read("data/w.bin", 2, {{"length", "99999999999999999999"}}), ErrorCode::Invalid,
               "no number of bytes");
}

TEST_F(OnnxExternalData, Fault60_AModelWithoutAFolderHasNone) {
  TensorProto tensor = tensor_of("w", TensorProto::FLOAT, {2});
  tensor.set_data_location(TensorProto::EXTERNAL);
  expect_invalid(constant_model(tensor), "external data have no location");
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("w.bin");
  expect_invalid(constant_model(tensor), "the model has no folder");
}

TEST_F(OnnxExternalData, ModelsAreReadFromFiles) {
  std::ofstream(root_ / "model/m.onnx", std::ios::binary) << identity_model().SerializeAsString();
  EXPECT_TRUE(read_onnx((root_ / "model/m.onnx").string()));
  EXPECT_EQ(read_onnx((root_ / "none.onnx").string()).error().code, ErrorCode::Environment);
  EXPECT_EQ(read_onnx((root_ / "model").string()).error().code, ErrorCode::Environment);
  const std::string damaged = (root_ / "outside.bin").string();
  expect_error(read_onnx(damaged), ErrorCode::Invalid, damaged + ": the model cannot be read");
}

// ---- 61: bombs ----------------------------------------------------------------------------------

TEST(OnnxImport, Fault61_ConstantsOf2To60Elements) {
  for (const int64_t extent : {int64_t{1} << 60, int64_t{1} << 30, INT64_MAX}) {
    ModelProto model = constant_model(integers("n", {2}, {extent, 4}));
    model.mutable_graph()->clear_output();
    add_node(model, "ConstantOfShape", {"n"}, {"y"}, "bomb");
    add_output(model, "y");
    expect_unsupported(model, "node 'bomb' (ConstantOfShape): its result f32[");
  }
}

TEST(OnnxImport, Fault61_RangesOf2To60Elements) {
  ModelProto model = empty_model();
  add_initializer(model, integers("start", {}, {0}));
  add_initializer(model, integers("limit", {}, {int64_t{1} << 60}));
  add_initializer(model, integers("delta", {}, {1}));
  add_node(model, "Range", {"start", "limit", "delta"}, {"y"}, "bomb");
  add_output(model, "y");
  expect_unsupported(model, "node 'bomb' (Range): its result i64[1152921504606846976]");
}

/// Two tensors of 64 MiB and more; `extra`: elements of the second that the first does not have.
ModelProto two_filled_tensors(int64_t extra) {
  ModelProto model = empty_model();
  for (int i = 0; i < 2; ++i) {
    const std::string shape = fmt::format("n{}", i), result = fmt::format("y{}", i);
    add_initializer(model, integers(shape, {1}, {(int64_t{1} << 24) + i * extra}));
    add_node(model, "ConstantOfShape", {shape}, {result});
    add_output(model, result);
  }
  return model;
}

TEST(OnnxImport, LargeTensorsOfEqualElementsAreStoredOnce) {
  const auto graph = imported(two_filled_tensors(0), {.most_bytes = int64_t{100} << 20});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->constants.at("y0").array, graph->constants.at("y1").array);
}

TEST(OnnxImport, Fault61_ManyConstantsOfAllowedSizes) {
  expect_error(imported(two_filled_tensors(1), {.most_bytes = int64_t{100} << 20}),
               ErrorCode::Unsupported, "tensors of equal elements take at most");
}

TEST(OnnxImport, Fault61_ConstantsThatAreMadeOfOthers) {
  ModelProto model = constant_model(integers("start", {}, {0}));
  add_initializer(model, integers("delta", {}, {1}));
  for (int i = 0; i < 5; ++i) {
    add_initializer(model, integers(fmt::format("limit{}", i), {}, {(int64_t{1} << 23) - i}));
    add_node(model, "Range", {"start", fmt::format("limit{}", i), "delta"},
             {fmt::format("y{}", i)});
    add_output(model, fmt::format("y{}", i));
  }
  expect_unsupported(model, "constants that are made at import take more than");
}

TEST(OnnxImport, Fault61_ConstantsLargerThanTheLimit) {
  const ModelProto model = constant_model(floats("w", {3}, {1, 2, 3}));
  EXPECT_TRUE(imported(model, {.most_bytes = 12}));
  expect_error(imported(model, {.most_bytes = 11}), ErrorCode::Unsupported, "most_bytes");
}

TEST(OnnxImport, Fault61_RowsWithoutColumns) {
  ModelProto model = empty_model();
  add_input(model, "x", {int64_t{1} << 40, int64_t{1} << 40, 0});
  add_node(model, "Flatten", {"x"}, {"y"}, "flat");
  add_output(model, "y");
  expect_unsupported(model, "node 'flat' (Flatten): the extents of 'x' are too large");
}

TEST(OnnxImport, Fault61_InputsOf2To60Elements) {
  ModelProto model = identity_model();
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(int64_t{1} << 60);
  expect_unsupported(model, "input 'x': it is too large");
}

// Large weights of 8 bits are left to the passes where activations are quantized, and only there.
TEST(OnnxImport, QuantizedModelsKeepTheirWeights) {
  const auto weights_of = [](bool quantizes) {
    ModelProto model = empty_model();
    add_input(model, "x", {2, 64});
    TensorProto weights = tensor_of("w", TensorProto::INT8, {64, 64});
    for (int i = 0; i < 64 * 64; ++i) weights.add_int32_data(i % 255 - 127);
    add_initializer(model, std::move(weights));
    add_initializer(model, floats("s", {}, {0.5}));
    if (quantizes) {
      add_node(model, "QuantizeLinear", {"x", "s"}, {"q"});
      add_node(model, "DequantizeLinear", {"q", "s"}, {"a"});
    }
    add_node(model, "DequantizeLinear", {"w", "s"}, {"f"});
    add_node(model, "MatMul", {quantizes ? "a" : "x", "f"}, {"y"});
    add_output(model, "y");
    const auto graph = imported(model);
    EXPECT_TRUE(graph) << graph.error().message;
    return graph->constants.contains("w") ? Int8 : Float32;
  };
  EXPECT_EQ(weights_of(true), Int8);
  EXPECT_EQ(weights_of(false), Float32);
}

}  // namespace
}  // namespace tw::graph
