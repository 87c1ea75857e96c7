// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads a TensorProto as an Array. Private to graph/onnx; for one thread.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "dsl/array.h"
#include "graph/onnx/external_data.h"

namespace onnx {
class TensorProto;
}

namespace tw::graph::onnx {

class TensorReader {
 public:
  /// `most_bytes` limits the total bytes of the arrays that this reader returns.
  TensorReader(DataFolders folders, int64_t most_bytes)
      : folders_(std::move(folders)), left_bytes_(most_bytes) {}

  /// Returns the elements of a tensor. Sizes are checked before memory is allocated. Fails, naming
  /// the tensor or its file, with
  /// - Unsupported for types that have no counterpart here, for tensors in segments, and if the
  ///   limit of bytes is exceeded;
  /// - Invalid if the number of elements is not that of the shape, if elements are in two fields of
  ///   the message or in the field of another type, or if an element is out of the range of its
  ///   type;
  /// - the errors of read_external() for external data.
  Result<dsl::Array> read(const ::onnx::TensorProto& tensor);

 private:
  DataFolders folders_;
  int64_t left_bytes_;
};

}  // namespace tw::graph::onnx
