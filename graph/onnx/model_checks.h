// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of a model in protobuf before it is imported: wire types, names, opsets, and the kinds of
// attributes. Errors are Invalid, naming the part, unless a function says otherwise. Private to
// the sources of graph/onnx that see protobuf; pure functions.

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

/// The error for an invalid model, "[onnx] why".
tl::unexpected<Error> invalid_model(const std::string& why);

bool is_default_domain(std::string_view domain);
/// The name of the node, or that of its first output.
std::string name_of(const ::onnx::NodeProto& node);
std::vector<std::string_view> outputs_of(const ::onnx::GraphProto& graph);
/// Adds to `seen` how many names it looked at, those of branches included.
NodeNames names_of(const ::onnx::NodeProto& node, int64_t& seen);

/// It is a model of a version of the format that is known; Unsupported for a later one. Graph and
/// functions are checked by themselves.
Status check_model(const ::onnx::ModelProto& model);
/// Inputs, outputs and initializers have names; each tensor is given once; there are outputs.
Status check_graph(const ::onnx::GraphProto& graph);
Status check_function(const ::onnx::FunctionProto& function);
/// The node has an operator, and attributes of distinct names with one value of their kind each.
/// `node` is for messages.
Status check_node(const Node& node, const ::onnx::NodeProto& proto);

/// The version of the default domain, 0 where it is not imported. Unsupported for one that is not
/// implemented.
Result<int64_t> opset_of(const Repeated<::onnx::OperatorSetIdProto>& imports);

}  // namespace tw::graph::onnx
