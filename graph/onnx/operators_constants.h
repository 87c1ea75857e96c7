// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversions of operators whose value is known at import, for the table in operators.cpp. Private
// to graph/onnx.

#include "graph/onnx/node.h"

namespace tw::graph::onnx {

Status convert_constant(const Node& node, Builder& builder);
Status convert_constant_of_shape(const Node& node, Builder& builder);
Status convert_dropout(const Node& node, Builder& builder);
Status convert_identity(const Node& node, Builder& builder);
Status convert_range(const Node& node, Builder& builder);
Status convert_shape(const Node& node, Builder& builder);
Status convert_size(const Node& node, Builder& builder);

}  // namespace tw::graph::onnx
