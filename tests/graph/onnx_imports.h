// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models and expectations that tests of the import share.

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

using ::testing::AllOf;
using ::testing::HasSubstr;

inline void expect_error(const Result<Graph>& result, ErrorCode code, const std::string& what) {
  ASSERT_FALSE(result) << to_text(*result);
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_THAT(result.error().message, AllOf(testing::StartsWith("[onnx] "), HasSubstr(what)));
}

inline void expect_error(const Result<OnnxModel>& result, ErrorCode code, const std::string& what) {
  expect_error(result.map([](const OnnxModel& model) { return model.graph; }), code, what);
}

inline void expect_invalid(const ModelProto& model, const std::string& what) {
  expect_error(imported(model), ErrorCode::Invalid, what);
}

/// Returns the elements of a constant of the graph, or {} if there is no such constant.
inline std::vector<double> values_of(const Graph& graph, const std::string& name) {
  const auto found = graph.constants.find(name);
  if (found == graph.constants.end()) return {};
  std::vector<double> values;
  for (int64_t i = 0; i < found->second.array->size(); ++i)
    values.push_back(found->second.array->get_float(i));
  return values;
}

inline void expect_unsupported(const ModelProto& model, const std::string& what) {
  expect_error(imported(model), ErrorCode::Unsupported, what);
}

inline Graph graph_of(const ModelProto& model, const OnnxOptions& options = {}) {
  Result<Graph> graph = imported(model, options);
  if (!graph) ADD_FAILURE() << graph.error().message;
  return graph ? *graph : Graph{};
}

inline FunctionProto& add_function(ModelProto& model, const std::string& name,
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

/// Returns the model y = If(condition). The then-branch gives the constant 4. The else-branch gives
/// x, a tensor of the graph around it.
inline ModelProto if_model(bool condition) {
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

/// Adds a body graph to the node. The body computes `s_out` = s_in + x * k and `row` = x.
inline GraphProto& add_body(NodeProto& node, const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs) {
  GraphProto& body = *add_attribute(node, "body", AttributeProto::GRAPH).mutable_g();
  for (const std::string& input : inputs) body.add_input()->set_name(input);
  add_node(body, "Mul", {"x", "k"}, {"scaled"});
  add_node(body, "Add", {"s_in", "scaled"}, {"s_out"});
  add_node(body, "Identity", {"x"}, {"row"});
  for (const std::string& output : outputs) add_output(body, output);
  return body;
}

/// Returns a Scan along dimension 1 of xs [2, 3]. The body reads k, an input of the model.
inline ModelProto scan_model(int64_t input_direction = 0, int64_t output_direction = 0,
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

/// Returns a Loop of `trips` trips. In the body, x is the index of the trip, and k is a weight.
inline ModelProto loop_model(int64_t trips, bool holds = true) {
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

/// Returns the model y = x of f32[1, 2, 3]. The output is declared with `shape` and `type`; a
/// negative extent stands for a symbolic one.
inline ModelProto model_with_output(const std::vector<int64_t>& shape,
                                    int32_t type = TensorProto::FLOAT) {
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

/// Returns a model with two constant tensors. The first has 64 MiB; the second has `extra` more
/// elements than the first.
inline ModelProto two_filled_tensors(int64_t extra) {
  ModelProto model = empty_model();
  for (int i = 0; i < 2; ++i) {
    const std::string shape = fmt::format("n{}", i), result = fmt::format("y{}", i);
    add_initializer(model, integers(shape, {1}, {(int64_t{1} << 24) + i * extra}));
    add_node(model, "ConstantOfShape", {shape}, {result});
    add_output(model, result);
  }
  return model;
}

}  // namespace tw::graph
