// SPDX-License-Identifier: Apache-2.0
#pragma once
// Describes a tensor to a GPU's copy engine (TMA), which copies boxes, that is, tiles of the
// tensor, to shared memory (CUDA: CUtensorMap, boxDim). A kernel takes the map as a parameter of
// its launch. A plain value.

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace tw::runtime {

/// A tensor map. Dimensions are listed innermost first; elements along the innermost dimension are
/// contiguous.
struct TensorMap {
  int argument = 0;    ///< index of the launch's argument whose memory holds the tensor
  int64_t offset = 0;  ///< bytes from the beginning of that memory
  DType type = Float32;
  /// In elements; a box that exceeds them is filled with zeros there.
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;  ///< in bytes, for each dimension except the innermost
  std::vector<int64_t> box;      ///< size of a box in elements
  /// Swizzle of a box in shared memory: 0 (none), 32, 64 or 128. The byte at offset `a` of the box
  /// lies at a ^ (((a >> 7) & (swizzle / 16 - 1)) << 4).
  int swizzle = 0;
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

/// Checks that the copy engine accepts the map. Invalid, with a message of one line, if a size is
/// out of range, or if a stride or a row of a box is no multiple of 16 bytes.
Status check_tensor_map(const TensorMap& map);

}  // namespace tw::runtime
