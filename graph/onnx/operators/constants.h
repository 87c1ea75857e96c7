// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversions of operators whose results are known at import, for the table in operators.cpp.
// Private to graph/onnx.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "dsl/array.h"
#include "graph/onnx/node.h"

namespace tw::graph::onnx {

Status convert_constant(const Node& node, Builder& builder);
Status convert_constant_of_shape(const Node& node, Builder& builder);
Status convert_dropout(const Node& node, Builder& builder);
Status convert_identity(const Node& node, Builder& builder);
Status convert_range(const Node& node, Builder& builder);
Status convert_shape(const Node& node, Builder& builder);
Status convert_size(const Node& node, Builder& builder);

/// Returns a zero-filled array for a result of the node. Fails with Invalid if an extent is
/// negative, and with Unsupported if the array is too large to be made at import.
Result<dsl::Array> made_array(const Node& node, DType type, const std::vector<int64_t>& shape);

// Implemented in constant_indexing.cpp. Requires: all inputs of the node are constants.
Status compute_gather_elements(const Node& node, Builder& builder);
Status compute_gather_nd(const Node& node, Builder& builder);
Status compute_scatter_elements(const Node& node, Builder& builder);
Status compute_scatter_nd(const Node& node, Builder& builder);

}  // namespace tw::graph::onnx
