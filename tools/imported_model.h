// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the network that the flags of a verb name: unchanged, or after the graph passes (graph
// rewrites such as fusion). Thread-safe.

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "graph/graph.h"
#include "tools/places.h"
#include "tools/surroundings.h"
#include "tuner/network/tune_model.h"

namespace tw::tools {

/// Parses texts such as "batch=1,8" and returns all combinations of the dimensions' values.
/// Example: "batch=1,8" and "length=64" give {batch 1, length 64} and {batch 8, length 64}. Fails
/// with Usage if a text is malformed or a dimension is given twice; the message begins with `verb`.
Result<std::vector<tuner::Dimensions>> dimension_sets(const std::vector<std::string>& texts,
                                                      const std::string& verb);

/// Inputs that become constants: the name of each input, with the values of its elements.
using Constants = std::map<std::string, std::vector<double>>;

/// Parses texts such as "sr=16000" and "size=224,224". Each text gives the name of an input and the
/// elements of the constant that replaces the input. Fails with Usage if a text is malformed or an
/// input is given twice; the message begins with `verb`.
Result<Constants> pinned_inputs(const std::vector<std::string>& texts, const std::string& verb);

struct ImportFlags {
  std::string model;                  ///< an ONNX file, or the name of a standing model
  tuner::Dimensions dimensions = {};  ///< values of the dimensions that the model leaves open
  Constants constants = {};           ///< inputs that become constants
};

/// Reads a model and applies no graph pass. If the model is a standing model whose file is not in
/// the cache, the file is made first. Warnings of the import are added to `here.environment.notes`.
/// Fails with the errors of onnx_file_of() and graph::read_onnx().
Result<tuner::NetworkVariant> read_network(const ImportFlags& flags, const PlaceFlags& place,
                                           const Surroundings& here);

/// Returns the name of a network: the name of its file without folder and extension.
std::string network_name(const std::string& model);

struct ImportedModel {
  std::string name;
  graph::Graph graph;
};

/// Reads a model and applies the graph passes for the target, as `tune --model` does before it
/// plans. Fails with the errors of read_network() and tuner::apply_passes_for(). An interrupt,
/// which increases `interrupts`, ends the passes early with the error Interrupted.
Result<ImportedModel> import_model(const ImportFlags& flags, const Target& target,
                                   const PlaceFlags& place, const Surroundings& here,
                                   const std::atomic<int>& interrupts);

}  // namespace tw::tools
