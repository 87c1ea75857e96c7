// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads ONNX models into graphs. Shapes are static when the graph is made: symbolic dimensions are
// given values, arithmetic on shapes is folded. Protobuf and the schema of the `onnx` package are
// seen in the sources of this folder only.
//
//   TW_TRY(OnnxModel model, read_onnx("resnet50.onnx", {.dimensions = {{"batch", 1}}}));
//   model.graph;   // and model.warnings
//
// A model is untrusted input: sizes are checked before memory is taken, nesting is bounded, and
// external data is read from the folders of the model only. Thread-safe.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tw::graph {

struct OnnxOptions {
  /// Values of symbolic dimensions, by their names or as "x.0" for dimension 0 of the input x,
  /// which has precedence.
  std::map<std::string, int64_t> dimensions = {};
  /// Inputs that become constants: their elements in row-major order, by the input's name. Integers
  /// beyond 2^53 cannot be given.
  std::map<std::string, std::vector<double>> constants = {};
  int64_t most_bytes = int64_t{16} << 30;  ///< of all constants together
};

struct OnnxModel {
  Graph graph;
  /// Faults of the model that the import ignored, and decisions that its author may not expect: one
  /// sentence each, without a prefix.
  std::vector<std::string> warnings;
};

/// Environment where the file cannot be read; Invalid, naming node or tensor, where it is no valid
/// model; Usage where a symbolic dimension has no value, and where options name no dimension or
/// input of the model or give an input values that it cannot have; Unsupported, listing all of them
/// at once, where nodes have an operator, an opset, a domain, a data type or an attribute that is
/// not implemented. Dead nodes are not looked at.
Result<OnnxModel> read_onnx(const std::string& path, const OnnxOptions& options = {});

/// The same for the bytes of a model; `folder` is where external data lies, empty: there is none.
Result<OnnxModel> parse_onnx(std::string_view bytes, const std::string& folder,
                             const OnnxOptions& options = {});

/// The operators that are implemented, sorted; "com.microsoft.QGemm" is one of ONNX Runtime's.
std::vector<std::string> onnx_operators();

}  // namespace tw::graph
