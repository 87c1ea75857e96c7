// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads ONNX models into graphs. Shapes are static when the graph is made: symbolic dimensions are
// given values, arithmetic on shapes is folded. Protobuf and the schema of the `onnx` package are
// seen in the sources of this folder only.
//
//   TW_TRY(Graph graph, read_onnx("resnet50.onnx", {.dimensions = {{"batch", 1}}}));
//
// A model is untrusted input: sizes are checked before memory is taken, nesting is bounded, and
// external data is read from below the model's folder only. Thread-safe.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace tw::graph {

struct OnnxOptions {
  std::map<std::string, int64_t> dimensions = {};  ///< values of symbolic dimensions, by name
  int64_t most_bytes = int64_t{16} << 30;          ///< of all constants together
};

/// Environment where the file cannot be read; Invalid, naming node or tensor, where it is no valid
/// model; Usage where a symbolic dimension has no value; Unsupported, listing all of them at once,
/// where nodes have an operator, an opset, a domain, a data type or an attribute that is not
/// implemented. Dead nodes are not looked at.
Result<Graph> read_onnx(const std::string& path, const OnnxOptions& options = {});

/// The same for the bytes of a model; `folder` is where external data lies, empty: there is none.
Result<Graph> parse_onnx(std::string_view bytes, const std::string& folder,
                         const OnnxOptions& options = {});

/// The operators of the default domain that are implemented, sorted.
std::vector<std::string> onnx_operators();

}  // namespace tw::graph
