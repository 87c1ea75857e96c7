// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes that lie beside a model, in files that the model names. A model is untrusted, so only
// regular files below its folder are read, to which no symbolic link and no second hard link leads.
// Private to graph/onnx; thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tw::graph::onnx {

struct ExternalRange {
  std::string location;                          ///< relative to the folder
  int64_t offset = 0;                            ///< in bytes
  std::optional<int64_t> length = std::nullopt;  ///< the rest of the file where there is none
};

/// Reads the range, which has to have `bytes` bytes, after all of it was checked. Invalid where the
/// path leads out of the folder or to anything but a file of its own, and where the range is not in
/// the file or has another size; Environment where the file cannot be read. An empty folder stands
/// for none.
Result<std::vector<std::byte>> read_external(const std::string& folder, const ExternalRange& range,
                                             int64_t bytes);

}  // namespace tw::graph::onnx
