// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values of TensorProto as arrays of ours. Private to graph/onnx; for one thread.

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
  /// All arrays together may have `most_bytes` bytes.
  TensorReader(DataFolders folders, int64_t most_bytes)
      : folders_(std::move(folders)), left_bytes_(most_bytes) {}

  /// f64 becomes f32. Unsupported, naming the tensor, for types that we do not have, and where
  /// the limit is exceeded; Invalid where there are more or fewer elements than the shape has, in
  /// two fields at once or in one of another type. Memory is taken after the size was checked.
  Result<dsl::Array> read(const ::onnx::TensorProto& tensor);

 private:
  DataFolders folders_;
  int64_t left_bytes_;
};

}  // namespace tw::graph::onnx
