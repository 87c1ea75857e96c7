// SPDX-License-Identifier: Apache-2.0
#pragma once
// Places of matrix elements in registers and in shared memory, as tensor cores and the copy engine
// (TMA) define them. The functions follow the PTX ISA ("Matrix Descriptor Format", "Strides",
// "Swizzling modes", the figures of matrix fragments) and the canonical layouts of CUTLASS
// (cute/arch/mma_sm90_desc.hpp). They check the code generator, so they share no code with it.
//
// Pure functions; thread-safe.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tw::ptx {

/// Fields of a wgmma matrix descriptor, in bytes.
struct MatrixDescriptor {
  int64_t start = 0;
  int64_t leading = 0;  ///< leading dimension byte offset
  int64_t stride = 0;   ///< stride dimension byte offset
  int base_offset = 0;
  int swizzle = 0;  ///< 0, 32, 64 or 128 bytes
};

/// Decodes a descriptor. Fails with Invalid if bits are set that the format reserves, or if the
/// base offset is not 0, which no layout here has.
Result<MatrixDescriptor> decode_descriptor(uint64_t bits);

/// Returns the address after the swizzle: as many of the bits 4 to 6 as the swizzle has are xored
/// with the bits 7 to 9.
constexpr int64_t swizzled_address(int64_t address, int swizzle) {
  return swizzle == 0 ? address : address ^ (((address >> 7) & (swizzle / 16 - 1)) << 4);
}

/// Returns the address in shared memory of an element of a factor. `row` is the row of the first
/// factor or the column of the second; `term` is the index along the reduction. Requires: elements
/// have 16 bits if the factor is MN-major.
int64_t element_address(const MatrixDescriptor& descriptor, bool is_mn_major, int element_bytes,
                        int64_t row, int64_t term);

/// Returns the row and column of register `i` of an accumulator (C and D). `thread` is the lane of
/// a warp for mma.sync with 8 columns, or the thread of a warpgroup for wgmma.
std::pair<int, int> accumulator_place(int thread, int i);
/// Returns the row and term of element `j` of register `i` in a lane's fragment of A (16 rows).
std::pair<int, int> a_fragment_place(int lane, int i, int j, int elements);
/// Returns the term and column of element `j` of register `i` in a lane's fragment of B (8
/// columns).
std::pair<int, int> b_fragment_place(int lane, int i, int j, int elements);

/// The place of an element of a box: `from` is its byte offset in the tensor, or -1 outside of the
/// tensor; `to` is its address in shared memory.
struct BoxElement {
  int64_t from = -1, to = 0;
};
std::vector<BoxElement> box_elements(const std::vector<int64_t>& extents,
                                     const std::vector<int64_t>& strides,
                                     const std::vector<int64_t>& box, int element_bytes,
                                     int swizzle, const std::vector<int64_t>& first, int64_t to);

}  // namespace tw::ptx
