// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes that lie beside a model, in files that the model names. A model is untrusted, so only
// regular files below its folders are read.
//
// Caches of downloads store files under hashes and link to them, a model like its data:
//
//   snapshots/1/model.onnx      -> ../../blobs/aa
//   snapshots/1/model.onnx_data -> ../../blobs/bb
//
// So a symbolic link may lead below the folder in which the model's file really lies. It opens
// nothing that this file could not name itself were it read by its real path. Private to
// graph/onnx; thread-safe.

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

/// The folders below which external data may lie.
struct DataFolders {
  std::string folder;     ///< of the model, to which locations are relative; empty: there is none
  std::string real = {};  ///< of the file to which the model's path leads; empty: the same
};

/// Reads the range, which has to have `bytes` bytes, after all of it was checked. Invalid where the
/// location leads out of the model's folder, where symbolic links lead out of both folders or to
/// anything but a regular file, and where the range is not in the file or has another size;
/// Environment where the file cannot be read.
Result<std::vector<std::byte>> read_external(const DataFolders& folders, const ExternalRange& range,
                                             int64_t bytes);

}  // namespace tw::graph::onnx
