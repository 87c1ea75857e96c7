// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks as the flags of a verb name them: read from their files, and perhaps rewritten by the
// passes. Thread-safe.

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

/// All combinations of the values in texts such as "batch=1,8". Usage for other text, and for a
/// dimension that is given twice; `verb` begins the message.
Result<std::vector<tuner::Dimensions>> dimension_sets(const std::vector<std::string>& texts,
                                                      const std::string& verb);

/// Elements of inputs that become constants, by the input's name.
using Constants = std::map<std::string, std::vector<double>>;

/// The inputs and values of texts such as "sr=16000" or "size=224,224". Usage for other text, and
/// for an input that is given twice; `verb` begins the message.
Result<Constants> pinned_inputs(const std::vector<std::string>& texts, const std::string& verb);

struct ImportFlags {
  std::string model;                  ///< an ONNX file, or the name of a standing model
  tuner::Dimensions dimensions = {};  ///< values of the dimensions that the model leaves open
  Constants constants = {};           ///< inputs that become constants
};

/// Reads a model as it is, before any pass; the file of a standing model is made first if the cache
/// has none. Warnings of the import become notes of the environment. Fails as onnx_file_of() and
/// read_onnx() do.
Result<tuner::NetworkVariant> read_network(const ImportFlags& flags, const PlaceFlags& place,
                                           const Surroundings& here);

/// The name of a network: that of its file, without its ending.
std::string network_name(const std::string& model);

struct ImportedModel {
  std::string name;
  graph::Graph graph;
};

/// Reads a model and applies the passes for the target, as `tune --model` does first. Fails as
/// read_network() and tuner::apply_passes_for() do; an interrupt ends the passes.
Result<ImportedModel> import_model(const ImportFlags& flags, const Target& target,
                                   const PlaceFlags& place, const Surroundings& here,
                                   const std::atomic<int>& interrupts);

}  // namespace tw::tools
