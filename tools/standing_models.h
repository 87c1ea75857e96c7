// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks by name: scripts beside this program (bench/models) make their ONNX files, which are
// kept in the cache, in a folder named by the hash of the scripts. Thread-safe.

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "tools/places.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// An ONNX file, and the values of those of its dimensions that it leaves open.
struct OnnxFile {
  std::string path;
  std::map<std::string, int64_t> dimensions;
};

/// `model` itself where it is the path of a file, else the file of the standing model of this name,
/// made where the cache has none of these scripts. A standing model has a file for each value of
/// the dimension "batch" (1 if it is not given), which leaves no dimension open. Environment where
/// it is no file and the script, Python or its packages are missing, or the script knows no such
/// name.
Result<OnnxFile> onnx_file_of(const std::string& model, std::map<std::string, int64_t> dimensions,
                              const PlaceFlags& place, const Surroundings& here);

}  // namespace tw::tools
