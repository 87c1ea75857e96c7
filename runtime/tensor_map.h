// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a GPU's copy engine is told of a tensor, of which it copies boxes into shared memory (CUDA:
// CUtensorMap). Part of what a kernel needs for its launch. A plain value.

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace tw::runtime {

/// Dimensions innermost first, whose elements are neighbours.
struct TensorMap {
  int argument = 0;    ///< of the launch: whose memory it is
  int64_t offset = 0;  ///< bytes from its beginning
  DType type = Float32;
  std::vector<int64_t> extents;  ///< elements; what a box has outside of them is zeros
  std::vector<int64_t> strides;  ///< bytes, of all dimensions but the innermost
  std::vector<int64_t> box;      ///< elements that one copy moves
  /// 32, 64 or 128: the byte at `a` of a box lies at a ^ (((a >> 7) & (swizzle / 16 - 1)) << 4).
  int swizzle = 0;
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

/// Invalid, in one line, where the engine does not take it: sizes, and what must be multiples of
/// 16 bytes.
Status check_tensor_map(const TensorMap& map);

}  // namespace tw::runtime
