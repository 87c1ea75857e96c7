// SPDX-License-Identifier: Apache-2.0
#pragma once
// The types that a model declares for its inputs and outputs, and the values that a caller gives to
// symbolic dimensions and to inputs. Private to the sources of graph/onnx that include protobuf;
// pure functions.

#include <onnx-ml.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/array.h"
#include "graph/graph.h"

namespace tw::graph::onnx {

using Inputs = std::vector<const ::onnx::ValueInfoProto*>;
using DimensionValues = std::map<std::string, int64_t>;

/// `values` gives extents to symbolic dimensions, by the dimension's name ("batch") or by the name
/// of the input and the index of the dimension ("x.0" is dimension 0 of input x). Fails with Usage
/// unless every symbolic dimension has a value, and every value belongs to a dimension and is not
/// negative.
Status check_dimensions(const Inputs& inputs, const DimensionValues& values);

/// Returns the type of an input. A value for "x.0" takes precedence over a value for the
/// dimension's name. An extent of -1 in the model stands for an unknown extent. Fails with Invalid
/// for other negative extents, and with Unsupported for types that are not implemented and for very
/// large tensors. Requires: check_dimensions() succeeded.
Result<TensorType> type_of_input(const ::onnx::ValueInfoProto& input,
                                 const DimensionValues& values);

/// `values` gives elements to inputs that become constants. Fails with Usage unless each name in it
/// is the name of an input.
Status check_pinned(const Inputs& inputs, const std::map<std::string, std::vector<double>>& values);

/// Returns an array of this type with the values as its elements, in row-major order. Fails with
/// Usage, naming the input, if the number of values is wrong or the type cannot represent one of
/// them.
Result<dsl::Array> pinned_array(const std::string& input, const TensorType& type,
                                const std::vector<double>& values);

/// Compares the type that the model declares for an output with `computed`, the type that its nodes
/// give. A dimension or element type that the model does not declare agrees with any other. Returns
/// nullopt if the types agree, and a warning if only the shapes differ. Fails with Invalid if the
/// element types differ.
Result<std::optional<std::string>> check_declared(const ::onnx::ValueInfoProto& output,
                                                  const TensorType& computed);

}  // namespace tw::graph::onnx
