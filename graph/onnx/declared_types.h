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

/// `values` gives extents to symbolic dimensions, by the dimension's name ("batch") or by the input
/// and the dimension's number ("x.0" is dimension 0 of input x). Checks that every symbolic
/// dimension has a value, and that every value belongs to a dimension and is not negative. Usage
/// otherwise.
Status check_dimensions(const Inputs& inputs, const DimensionValues& values);

/// The type of an input. A value for "x.0" takes precedence over a value for the dimension's name.
/// An extent of -1 in the model stands for an unknown extent; Invalid for other negative extents.
/// Unsupported for types that are not implemented and for very large tensors. Requires:
/// check_dimensions().
Result<TensorType> type_of_input(const ::onnx::ValueInfoProto& input,
                                 const DimensionValues& values);

/// `values` gives elements to inputs that become constants. Checks that each of its names is the
/// name of an input. Usage otherwise.
Status check_pinned(const Inputs& inputs, const std::map<std::string, std::vector<double>>& values);

/// An array of this type with the values as its elements, in row-major order. Usage, naming the
/// input, if the number of values is wrong or the type cannot represent one of them.
Result<dsl::Array> pinned_array(const std::string& input, const TensorType& type,
                                const std::vector<double>& values);

/// Compares the type that the model declares for an output with `computed`, the type that its nodes
/// give. A dimension or type that the model leaves open agrees with any. Returns nullopt if the
/// types agree, and a warning if only the shapes differ. Invalid if the element types differ.
Result<std::optional<std::string>> check_declared(const ::onnx::ValueInfoProto& output,
                                                  const TensorType& computed);

}  // namespace tw::graph::onnx
