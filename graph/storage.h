// SPDX-License-Identifier: Apache-2.0
#pragma once
// The placement of the elements of a tensor in memory, in a form that is equal for any two layouts
// that put every element at the same place. For images of 1 x 1, for example, NCHW and NHWC do so.
// Plain values; thread-safe.

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
  /// A digit of an index, as in a mixed radix. In NCHW16c with the shape [1, 64, 8, 8], the channel
  /// has the steps 1 (stride 1) and 16 (stride 1024). Channel 35 is 3 * 1 + 2 * 16, so its digits
  /// are 3 and 2, and it adds 3 * 1 + 2 * 1024 to the offset. A step is left out if it
  /// continues the digit of the step before: a step 16 of stride 16 after a step 1 of stride 1 is
  /// left out, since both together are one digit of stride 1.
  struct Step {
    int dim;
    int64_t step, stride;
    friend bool operator==(const Step&, const Step&) = default;
  };
  int64_t elements = 0;     ///< size of the array, padding included
  std::vector<Step> steps;  ///< sorted by dimension, then by step

  friend bool operator==(const Storage&, const Storage&) = default;
};

/// Returns the Storage of a tensor of this shape in this layout. Requires: the rank of the layout
/// is that of the shape, and the size of the array is within int64.
Storage storage_of(const std::vector<int64_t>& shape, const dsl::Layout& layout);

/// Returns the offset, in elements, of the slice [begin, end) of a dimension in the array of a
/// tensor of shape `shape`. A slice has an offset only if the array holds the slice, without gaps,
/// in the order in which `layout` would store the slice as a tensor of its own. For example,
/// channels 32 to 63 of [1, 64, 8, 8] begin at offset 2048 in NCHW and in NCHW16c. nullopt if other
/// elements lie between those of the slice (NHWC, or a batch of 2), or if a block has elements of
/// the slice and other elements (NCHW64c). Requires: the rank of the layout is that of the shape; 0
/// <= begin < end <= shape[dimension].
std::optional<int64_t> offset_of_slice(const std::vector<int64_t>& shape, const dsl::Layout& layout,
                                       size_t dimension, int64_t begin, int64_t end);

}  // namespace tw::graph
