// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a layout puts the elements of a tensor, in a form by which layouts compare: NCHW and NHWC
// are two layouts, but of images of 1 x 1 they are the same storage. Plain values; thread-safe.

#include <cstdint>
#include <vector>

#include "dsl/layout.h"

namespace tw::graph {

/// Equal for two layouts if and only if they put every element of a tensor at the same offset of
/// arrays of the same size. Sizes matter because a kernel may read padding, which is zero.
struct Storage {
  /// From index `step` of dimension `dim` on, each multiple of `step` adds `stride` elements to the
  /// offset. Steps at which the offset only goes on growing as before are left out.
  struct Step {
    int dim;
    int64_t step, stride;
    friend bool operator==(const Step&, const Step&) = default;
  };
  int64_t elements = 0;     ///< size of the array, padding included
  std::vector<Step> steps;  ///< sorted by dimension, then by step

  friend bool operator==(const Storage&, const Storage&) = default;
};

/// Requires: the layout is of the shape's rank, and the size of the array is within int64.
Storage storage_of(const std::vector<int64_t>& shape, const dsl::Layout& layout);

}  // namespace tw::graph
