// SPDX-License-Identifier: Apache-2.0
#pragma once
// The types that a model declares for its inputs and outputs, and the values that a caller gives to
// symbolic dimensions and to inputs. Private to the sources of graph/onnx that see protobuf; pure
// functions.

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

/// Checks that every symbolic dimension of the inputs has a value, under its own name or as "x.0"
/// for dimension 0 of the input x, and that every value belongs to a dimension. Usage otherwise.
Status check_dimensions(const Inputs& inputs, const DimensionValues& values);

/// The type of an input. A value for "x.0" takes precedence over a value for the name of the
/// dimension. Requires: check_dimensions(). Unsupported for types that are not implemented; Invalid
/// for a negative extent other than -1, which stands for an unknown one.
Result<TensorType> type_of_input(const ::onnx::ValueInfoProto& input,
                                 const DimensionValues& values);

/// Checks that every name in `values` is the name of an input. Usage otherwise.
Status check_pinned(const Inputs& inputs, const std::map<std::string, std::vector<double>>& values);

/// An array of this type with the values as its elements, in row-major order. Usage, naming the
/// input, if the number of values is wrong or the type cannot represent one of them.
Result<dsl::Array> pinned_array(const std::string& input, const TensorType& type,
                                const std::vector<double>& values);

/// Compares the type that the model declares for an output with the type that its nodes compute.
/// Returns a warning if the shapes differ, nullopt if they agree; dimensions and types that the
/// model leaves open agree with all. Invalid if the element types differ.
Result<std::optional<std::string>> check_declared(const ::onnx::ValueInfoProto& output,
                                                  const TensorType& computed);

}  // namespace tw::graph::onnx
