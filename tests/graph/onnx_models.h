// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small ONNX models for tests, built as protobuf messages.

#include <onnx-ml.pb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx/import.h"

namespace tw::graph {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

/// Returns a model with this opset and without nodes.
inline ModelProto empty_model(int64_t opset = 17) {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("test");
  return model;
}

inline ValueInfoProto& add_input(ModelProto& model, const std::string& name,
                                 const std::vector<int64_t>& shape,
                                 int32_t type = TensorProto::FLOAT) {
  ValueInfoProto& input = *model.mutable_graph()->add_input();
  input.set_name(name);
  auto& tensor = *input.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (const int64_t extent : shape) tensor.mutable_shape()->add_dim()->set_dim_value(extent);
  return input;
}

template <typename Body>
void add_output(Body& body, const std::string& name) {
  body.add_output()->set_name(name);
}
inline void add_output(ModelProto& model, const std::string& name) {
  add_output(*model.mutable_graph(), name);
}

/// Adds a node to `body`, which is a graph or a function.
template <typename Body>
NodeProto& add_node(Body& body, const std::string& op_type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::string& name = "") {
  NodeProto& node = *body.add_node();
  node.set_op_type(op_type);
  if (!name.empty()) node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}
inline NodeProto& add_node(ModelProto& model, const std::string& op_type,
                           const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const std::string& name = "") {
  return add_node(*model.mutable_graph(), op_type, inputs, outputs, name);
}

inline AttributeProto& add_attribute(NodeProto& node, const std::string& name,
                                     AttributeProto::AttributeType type) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

/// Returns a tensor with no elements yet.
inline TensorProto tensor_of(const std::string& name, int32_t type,
                             const std::vector<int64_t>& shape) {
  TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t extent : shape) tensor.add_dims(extent);
  return tensor;
}

inline TensorProto floats(const std::string& name, const std::vector<int64_t>& shape,
                          const std::vector<float>& values) {
  TensorProto tensor = tensor_of(name, TensorProto::FLOAT, shape);
  for (const float value : values) tensor.add_float_data(value);
  return tensor;
}

inline TensorProto integers(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<int64_t>& values) {
  TensorProto tensor = tensor_of(name, TensorProto::INT64, shape);
  for (const int64_t value : values) tensor.add_int64_data(value);
  return tensor;
}

inline void add_initializer(ModelProto& model, TensorProto tensor) {
  *model.mutable_graph()->add_initializer() = std::move(tensor);
}

/// Returns the model x -> Identity -> y on three floats.
inline ModelProto identity_model() {
  ModelProto model = empty_model();
  add_input(model, "x", {3});
  add_node(model, "Identity", {"x"}, {"y"}, "same");
  add_output(model, "y");
  return model;
}

/// Returns a model with one initializer, the tensor, which is also its output.
inline ModelProto constant_model(TensorProto tensor) {
  ModelProto model = empty_model();
  add_output(model, tensor.name());
  add_initializer(model, std::move(tensor));
  return model;
}

/// Imports the model and returns its graph, without warnings.
inline Result<Graph> imported(const ModelProto& model, const OnnxOptions& options = {},
                              const std::string& folder = "") {
  return parse_onnx(model.SerializeAsString(), folder, options).map([](OnnxModel&& read) {
    return std::move(read.graph);
  });
}

}  // namespace tw::graph
