// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads tensors that lie beside a model, in files that the model names. A model is untrusted, so
// only regular files below the model's folder are read, with one exception for download caches.
// Such a cache stores each file under its hash and makes symbolic links to these files, for models
// and for their data:
//
//   snapshots/1/model.onnx      -> ../../blobs/aa
//   snapshots/1/model.onnx_data -> ../../blobs/bb
//
// So a symbolic link may also lead to files below the folder that holds the real file of the model
// (blobs). This is no additional risk: the model could name these files itself if it were read by
// its real path. Private to graph/onnx; thread-safe.

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
  /// Length in bytes; nullopt for the rest of the file.
  std::optional<int64_t> length = std::nullopt;
};

/// The folders below which external data may lie.
struct DataFolders {
  /// The folder that the model was read from; locations are relative to this folder. Empty if the
  /// model has no folder: external data cannot be read then.
  std::string folder;
  /// The folder of the model's file after symbolic links are resolved; empty if this is the same
  /// folder.
  std::string real = {};
};

/// Reads a range of a file. `bytes` is the number of bytes that the range must have. All checks
/// come before memory is allocated. Fails with Environment if the file cannot be read, and with
/// Invalid
/// - if the location leads out of the model's folder;
/// - if symbolic links lead out of both folders, or to anything but a regular file;
/// - if the range is not inside of the file or has another number of bytes.
Result<std::vector<std::byte>> read_external(const DataFolders& folders, const ExternalRange& range,
                                             int64_t bytes);

}  // namespace tw::graph::onnx
