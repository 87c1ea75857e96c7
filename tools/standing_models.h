// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds ONNX files by the names of standing models. A standing model is a network that the scripts
// in bench/models can make. The cache keeps the files in a folder whose name is the hash of the
// scripts. Thread-safe.

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "tools/places.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// An ONNX file, and values for its open dimensions by their names.
struct OnnxFile {
  std::string path;
  std::map<std::string, int64_t> dimensions;
};

/// Returns the ONNX file that `model` names. If `model` is the path of a file, the result is this
/// file with the given dimensions. Otherwise `model` is the name of a standing model. Its file is
/// made unless the cache has a file that the present scripts made. A standing model has a file for
/// each value of the dimension "batch" (default 1), in which the dimension is fixed; so "batch" is
/// removed from the dimensions of the result. Fails with Environment if there is no file `model`
/// and no standing model can be made: the script, Python or its packages are missing, or the script
/// has no model of this name. Fails with Interrupted if the user interrupts the script.
Result<OnnxFile> onnx_file_of(const std::string& model, std::map<std::string, int64_t> dimensions,
                              const PlaceFlags& place, const Surroundings& here);

}  // namespace tw::tools
