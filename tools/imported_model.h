// SPDX-License-Identifier: Apache-2.0
#pragma once
// A network on its way from a file to a plan: read, and rewritten by the passes. Thread-safe.

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/target.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "tools/selection.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Values of symbolic dimensions, by name.
using Dimensions = std::map<std::string, int64_t>;

/// All combinations of the values in texts such as "batch=1,8". Usage for other text, and for a
/// dimension that is given twice; `verb` begins the message.
Result<std::vector<Dimensions>> dimension_sets(const std::vector<std::string>& texts,
                                               const std::string& verb);

/// Elements of inputs that become constants, by the input's name.
using Constants = std::map<std::string, std::vector<double>>;

/// The inputs and values of texts such as "sr=16000" or "size=224,224". Usage for other text, and
/// for an input that is given twice; `verb` begins the message.
Result<Constants> pinned_inputs(const std::vector<std::string>& texts, const std::string& verb);

struct ImportFlags {
  std::string model;                       ///< an ONNX file, or the name of a standing model
  Dimensions dimensions = {};              ///< values of the dimensions that the model leaves open
  Constants constants = {};                ///< inputs that become constants
  std::vector<std::string> left_out = {};  ///< names of the passes to leave out
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;  ///< of the kernel of each operator
  std::optional<DType> precision = {};           ///< graph::PassOptions::precision
};

struct ImportedModel {
  std::string name;  ///< that of the file, without its ending
  graph::Graph graph;
  std::vector<graph::PassRun> passes;
};

/// Reads a model and applies the passes for the target; the file of a standing model is made first
/// if the cache has none. Warnings of the import become notes of the environment. Fails as
/// onnx_file_of(), read_onnx() and apply_passes() do; an interrupt ends the passes.
Result<ImportedModel> import_model(const ImportFlags& flags, const Target& target,
                                   const PlaceFlags& place, const Surroundings& here,
                                   const std::atomic<int>& interrupts);

}  // namespace tw::tools
