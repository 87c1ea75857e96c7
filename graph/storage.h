// SPDX-License-Identifier: Apache-2.0
#pragma once
// The placement of the elements of a tensor in memory, in a form that is equal for two layouts that
// place the elements alike, as NCHW and NHWC do with images of 1 x 1. Plain values; thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dsl/layout.h"

namespace tw::graph {

/// Two layouts have equal Storage if and only if they put every element of a tensor at the same
/// offset in arrays of the same size. The size matters because a kernel may read padding, which is
/// zero.
struct Storage {
  /// An index is split into digits, as by a mixed radix: if a dimension has the steps 1 and 4,
  /// index 7 has the digits 3 and 1. Each unit of the digit of `step` adds `stride` elements to the
  /// offset. A step is left out if stride and step grow by the same factor from the step before,
  /// since the two are then one digit.
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

/// The offset, in elements, at which the slice [begin, end) of a dimension begins in the array of a
/// tensor of this shape, if the array holds the slice in the way in which this layout would store
/// the slice as a tensor of its own. For example, the channels from 32 on of [1, 64, 8, 8] begin at
/// offset 2048 in NCHW and in NCHW16c. nullopt if other elements lie between those of the slice
/// (NHWC, or a batch of 2), or if a block has elements of the slice and others (NCHW64c). Requires:
/// the layout is of the shape's rank; 0 <= begin < end <= shape[dimension].
std::optional<int64_t> offset_of_slice(const std::vector<int64_t>& shape, const dsl::Layout& layout,
                                       size_t dimension, int64_t begin, int64_t end);

}  // namespace tw::graph
