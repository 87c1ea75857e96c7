// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cases of the ONNX backend test suite. A case is a model with the inputs and the expected outputs
// of a data set. Pure functions; thread-safe.
//
// Cases give shapes, axes and limits as inputs of the graph, but the import has to know their
// values. So if a model is unsupported, its inputs of at most one dimension are made constants.

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
  std::vector<dsl::Array> expected;  ///< values of the graph's outputs, in order
  bool has_constants = false;        ///< true if inputs were made constants
};

/// Reads a folder with model.onnx and test_data_set_*/{input,output}_*.pb. Returns a case for each
/// data set. Fails with the errors of read_onnx(), with Invalid if the folder has no data set, and
/// with Unsupported if an input or output is no tensor or an output is left out.
Result<std::vector<OnnxCase>> read_case(const std::filesystem::path& folder);

/// Describes the first output that differs from the expected one: in type, in shape, or by more
/// than the tolerances of the suite. Returns "" if there is none. `results` has all outputs of the
/// graph.
std::string difference(const OnnxCase& given, const dsl::Arrays& results);

/// Returns the line "unsupported: why" or "wrong: why" for an error of a case.
std::string verdict_of(const Error& error);

}  // namespace tw::graph
