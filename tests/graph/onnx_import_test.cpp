// SPDX-License-Identifier: Apache-2.0
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
#include "tests/graph/onnx_imports.h"
#include "tests/graph/onnx_models.h"

namespace tw::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  ModelProto whole = if_model(true);
  add_input(whole, "k", {}, TensorProto::INT64);
  EXPECT_TRUE(imported(whole, {.constants = {{"k", {0x1p53 - 1}}}}));
  // Constants are doubles. From 2^53 on, the given number may have been rounded: 2^53 + 1 would be
  // 2^53.
  expect_error(imported(whole, {.constants = {{"k", {0x1p53}}}}), ErrorCode::Usage,
               "the constant 'k': 9007199254740992 is no i64 from -9007199254740991 to "
               "9007199254740991");
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

TEST(OnnxImport, LargeTensorsOfEqualElementsAreStoredOnce) {
  const auto graph = imported(two_filled_tensors(0), {.most_bytes = int64_t{100} << 20});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->constants.at("y0").array, graph->constants.at("y1").array);
}

// If activations are quantized, large weights of 8 bits keep their type, so that later passes can
// use them. Otherwise they are converted to floats.
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
