// SPDX-License-Identifier: Apache-2.0
#pragma once
// Describes a tensor to a GPU's copy engine (TMA), which copies boxes, that is, tiles of the
// tensor, to shared memory (CUDA: CUtensorMap, boxDim). The map is a parameter of a kernel's
// launch. A plain value.

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace tw::runtime {

/// A tensor map. All lists have the innermost dimension first. Elements along the innermost
/// dimension are contiguous.
struct TensorMap {
  int argument = 0;    ///< index of the launch's argument whose memory holds the tensor
  int64_t offset = 0;  ///< bytes from the beginning of that memory
  DType type = Float32;
  /// Sizes of the tensor in elements. Where a box exceeds the tensor, zeros are copied.
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;  ///< in bytes, for each dimension except the innermost
  std::vector<int64_t> box;      ///< size of a box in elements
  /// Swizzle of a box in shared memory: 0 (none), 32, 64 or 128. The byte at offset `a` of the box
  /// is stored at a ^ (((a >> 7) & (swizzle / 16 - 1)) << 4). Example: with 128, byte 128 is stored
  /// at 128 ^ 16 = 144.
  int swizzle = 0;
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

/// Checks that the copy engine accepts the map. Fails with Invalid if a size is out of range, if a
/// stride or the length of a row of a box is not a multiple of 16 bytes, or if a row is longer than
/// the swizzle. The message is one line.
Status check_tensor_map(const TensorMap& map);

}  // namespace tw::runtime
