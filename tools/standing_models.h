// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the ONNX files of standing models, the networks that scripts of this program (bench/models)
// can make, by their names. The cache keeps the files in a folder that is named by the hash of the
// scripts. Thread-safe.

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "tools/places.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// An ONNX file, and values for its open dimensions, by name.
struct OnnxFile {
  std::string path;
  std::map<std::string, int64_t> dimensions;
};

/// The ONNX file that `model` names. If `model` is the path of a file, it is that file, with the
/// given dimensions. Otherwise `model` is the name of a standing model; its file is made if the
/// cache does not have one that the present scripts made. A standing model has one file for each
/// value of the dimension "batch" (default 1), and this file has no open dimension. Environment if
/// `model` is no file, and the script, Python or its packages are missing or the script has no
/// model of this name.
Result<OnnxFile> onnx_file_of(const std::string& model, std::map<std::string, int64_t> dimensions,
                              const PlaceFlags& place, const Surroundings& here);

}  // namespace tw::tools
