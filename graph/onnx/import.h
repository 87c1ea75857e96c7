// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads ONNX models into graphs. The shapes of a graph are static: symbolic dimensions get their
// values at import, and arithmetic on shapes is folded. Only sources of this folder include
// protobuf and the schema of the `onnx` package.
//
//   TW_TRY(OnnxModel model, read_onnx("resnet50.onnx", {.dimensions = {{"batch", 1}}}));
//   model.graph;   // and model.warnings
//
// A model is untrusted input: sizes are checked before memory is allocated, the depth of nesting is
// limited, and external data is read from the folders of the model only. Thread-safe.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tw::graph {

struct OnnxOptions {
  /// Values of symbolic dimensions, by the name of the dimension or as "x.0" for dimension 0 of the
  /// input x. The second form takes precedence.
  std::map<std::string, int64_t> dimensions = {};
  /// Values of inputs that become constants: the elements in row-major order, by the input's name.
  /// Integers must be below 2^53 in magnitude, because a larger one may have been rounded.
  std::map<std::string, std::vector<double>> constants = {};
  int64_t most_bytes = int64_t{16} << 30;  ///< limit for all constants together
};

struct OnnxModel {
  Graph graph;
  /// One sentence for each fault of the model that the import ignored, and for each decision that
  /// the author of the model may not expect. The sentences do not begin with "[onnx]".
  std::vector<std::string> warnings;
};

/// Reads the model in a file. Nodes that no output needs are ignored. Fails with
/// - Environment if the file cannot be read;
/// - Invalid, naming node or tensor, if the file is no valid model;
/// - Usage if a symbolic dimension has no value, if `options` name a dimension or input that the
///   model does not have, or if they give an input values that it cannot have;
/// - Unsupported if nodes have an operator, an opset, a domain, a data type or an attribute that is
///   not implemented, or if a tensor or the model is larger than a limit. One message lists all
///   unsupported parts.
Result<OnnxModel> read_onnx(const std::string& path, const OnnxOptions& options = {});

/// As read_onnx(), for the bytes of a model. `folder` holds the external data; empty if the model
/// has none.
Result<OnnxModel> parse_onnx(std::string_view bytes, const std::string& folder,
                             const OnnxOptions& options = {});

/// Returns the names of the operators that are implemented, sorted. Operators of ONNX Runtime have
/// their domain in front, as in "com.microsoft.QGemm".
std::vector<std::string> onnx_operators();

}  // namespace tw::graph
