// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the network that the flags of a verb name, as it is or rewritten by the passes.
// Thread-safe.

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

/// Parses texts such as "batch=1,8" and returns all combinations of the dimensions' values. Usage
/// for malformed text and for a dimension that is given twice; the message begins with `verb`.
Result<std::vector<tuner::Dimensions>> dimension_sets(const std::vector<std::string>& texts,
                                                      const std::string& verb);

/// The elements of the inputs that become constants; the key is the input's name.
using Constants = std::map<std::string, std::vector<double>>;

/// Parses texts such as "sr=16000" and "size=224,224", each an input and its elements. Usage for
/// malformed text and for an input that is given twice; the message begins with `verb`.
Result<Constants> pinned_inputs(const std::vector<std::string>& texts, const std::string& verb);

struct ImportFlags {
  std::string model;                  ///< an ONNX file, or the name of a standing model
  tuner::Dimensions dimensions = {};  ///< values of the dimensions that the model leaves open
  Constants constants = {};           ///< inputs that become constants
};

/// Reads a model and applies no pass. The file of a standing model is made first if the cache does
/// not have it. Warnings of the import become notes of the environment. Errors are those of
/// onnx_file_of() and read_onnx().
Result<tuner::NetworkVariant> read_network(const ImportFlags& flags, const PlaceFlags& place,
                                           const Surroundings& here);

/// The name of a network: its file's name without the extension.
std::string network_name(const std::string& model);

struct ImportedModel {
  std::string name;
  graph::Graph graph;
};

/// Reads a model and applies the passes for the target, as `tune --model` does before it plans.
/// Errors are those of read_network() and tuner::apply_passes_for(). An interrupt ends the passes.
Result<ImportedModel> import_model(const ImportFlags& flags, const Target& target,
                                   const PlaceFlags& place, const Surroundings& here,
                                   const std::atomic<int>& interrupts);

}  // namespace tw::tools
