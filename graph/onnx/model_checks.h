// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of a model in protobuf before it is imported: wire types, names, opsets, and the kinds of
// attributes. Errors are Invalid, naming the part of the model, unless a function says otherwise.
// Private to the sources of graph/onnx that include protobuf; pure functions.

#include <onnx-ml.pb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/onnx/node.h"
#include "graph/onnx/node_order.h"

namespace tw::graph::onnx {

template <typename T>
using Repeated = google::protobuf::RepeatedPtrField<T>;

/// Returns the error for an invalid model, with the message "[onnx] why".
tl::unexpected<Error> invalid_model(const std::string& why);

bool is_default_domain(std::string_view domain);
/// Returns the name of the node, or the name of its first output if the node has none.
std::string name_of(const ::onnx::NodeProto& node);
std::vector<std::string_view> outputs_of(const ::onnx::GraphProto& graph);
/// Returns the tensors that the node and its branches read and write. Adds the number of names to
/// `seen`, by which the importer limits its work.
NodeNames names_of(const ::onnx::NodeProto& node, int64_t& seen);

/// Checks that the model has a graph and is of a known version of the format. Fails with
/// Unsupported for other versions. Does not check the graph and the functions: see check_graph()
/// and check_function().
Status check_model(const ::onnx::ModelProto& model);
/// Checks that inputs, outputs and initializers have names, that each tensor is defined once, and
/// that the graph has outputs.
Status check_graph(const ::onnx::GraphProto& graph);
Status check_function(const ::onnx::FunctionProto& function);
/// Checks that the node has an operator, that its attributes have different names, and that each
/// attribute has one value, of the kind that it declares. `node` gives the name for messages.
Status check_node(const Node& node, const ::onnx::NodeProto& proto);

/// Returns the version of the default domain that a model or function imports; 0 if it imports
/// none. Fails with Unsupported if the version is not implemented.
Result<int64_t> opset_of(const Repeated<::onnx::OperatorSetIdProto>& imports);

}  // namespace tw::graph::onnx
