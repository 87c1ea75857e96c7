// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cases of the ONNX backend test suite: a model with the inputs and the expected outputs of a data
// set. Pure functions; thread-safe.
//
// Cases give shapes, axes and limits as inputs of the graph, which have to be known at import here.
// Where a model is unsupported otherwise, inputs of at most one dimension are made constants.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/array.h"
#include "dsl/interpreter.h"
#include "graph/graph.h"

namespace tw::graph {

struct OnnxCase {
  Graph graph;
  dsl::Arrays inputs;                ///< by the names of the graph's inputs
  std::vector<dsl::Array> expected;  ///< of the graph's outputs, in order
  bool has_constants = false;        ///< inputs were made constants
};

/// The case in a folder with model.onnx and test_data_set_*/{input,output}_*.pb, once for each data
/// set. Errors as read_onnx(); Unsupported where an input or output is no tensor.
Result<std::vector<OnnxCase>> read_case(const std::filesystem::path& folder);

/// Text about the first output that differs from the expected one in type or shape, or by more than
/// the tolerances of the suite; empty if there is none. `results` has all outputs of the graph.
std::string difference(const OnnxCase& given, const dsl::Arrays& results);

/// "unsupported: why" or "wrong: why", in one line.
std::string verdict_of(const Error& error);

}  // namespace tw::graph
