// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks by name: scripts beside this program (bench/models) make their ONNX files, which are
// kept in the cache, in a folder named by the hash of the scripts. Thread-safe.

#include <string>

#include "base/result.h"
#include "tools/selection.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// The path of an ONNX file: `model` itself where it is the path of a file, else that of the
/// standing model of this name, made where the cache has none of these scripts. Environment where
/// it is no file and the script, Python or its packages are missing, or the script knows no such
/// name.
Result<std::string> onnx_file_of(const std::string& model, const PlaceFlags& place,
                                 const Surroundings& here);

}  // namespace tw::tools
