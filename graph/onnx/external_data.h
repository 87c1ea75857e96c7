// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads tensors that lie beside a model, in files that the model names. A model is untrusted, so
// only regular files below its folders are read.
//
// Download caches store each file under its hash and make symbolic links to it, for models and for
// their data:
//
//   snapshots/1/model.onnx      -> ../../blobs/aa
//   snapshots/1/model.onnx_data -> ../../blobs/bb
//
// So a symbolic link may also lead to files below the folder that really holds the model's file.
// This gives access to nothing that the model could not name if it were read by its real path.
// Private to graph/onnx; thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tw::graph::onnx {

struct ExternalRange {
  std::string location;  ///< path relative to DataFolders::folder
  int64_t offset = 0;    ///< in bytes
  /// Length in bytes; nullopt: to the end of the file.
  std::optional<int64_t> length = std::nullopt;
};

/// The folders below which external data may lie.
struct DataFolders {
  /// Folder of the model's path, to which locations are relative; empty: there is none.
  std::string folder;
  /// Folder of the file to which the model's path leads by links; empty: the same folder.
  std::string real = {};
};

/// Reads the range, which must have `bytes` bytes. Everything is checked before memory is taken.
/// Invalid if the location leads out of the model's folder, if symbolic links lead out of both
/// folders or to anything but a regular file, and if the range is not in the file or has another
/// size. Environment if the file cannot be read.
Result<std::vector<std::byte>> read_external(const DataFolders& folders, const ExternalRange& range,
                                             int64_t bytes);

}  // namespace tw::graph::onnx
