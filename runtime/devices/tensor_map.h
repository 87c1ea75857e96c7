// SPDX-License-Identifier: Apache-2.0
#pragma once
// The description of a tensor from which a GPU's copy engine (TMA) moves boxes, tiles of the
// tensor, to shared memory (CUDA: CUtensorMap, boxDim). A launch of the kernel takes it as a
// parameter. A plain value.

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace tw::runtime {

/// Dimensions are listed innermost first; elements along the innermost one are contiguous.
struct TensorMap {
  int argument = 0;    ///< index of the launch's argument whose memory holds the tensor
  int64_t offset = 0;  ///< bytes from the beginning of that memory
  DType type = Float32;
  std::vector<int64_t> extents;  ///< elements; a box is filled with zeros outside of them
  std::vector<int64_t> strides;  ///< bytes, one for each dimension but the innermost
  std::vector<int64_t> box;      ///< elements that one copy moves
  /// 32, 64 or 128: the byte at `a` of a box lies at a ^ (((a >> 7) & (swizzle / 16 - 1)) << 4).
  int swizzle = 0;
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

/// Fails with Invalid and a message of one line if the copy engine does not accept the map: a size
/// is out of range, or a stride or a row is no multiple of 16 bytes.
Status check_tensor_map(const TensorMap& map);

}  // namespace tw::runtime
