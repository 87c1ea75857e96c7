// SPDX-License-Identifier: Apache-2.0
#pragma once
// Positions of matrix elements in registers and in shared memory, as tensor cores and the copy
// engine (TMA) define them. They are written from the PTX ISA ("Matrix Descriptor Format",
// "Strides", "Swizzling modes", the figures of matrix fragments) and from the canonical layouts of
// CUTLASS (cute/arch/mma_sm90_desc.hpp). The code generator is checked against them, so it shares
// no code with them.
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

/// Invalid: bits that the format reserves are set, or a base offset, which no layout here has.
Result<MatrixDescriptor> decode_descriptor(uint64_t bits);

/// The address after the swizzle: bits 4 to 6 are xored with bits 7 to 9, as many as the mode has.
constexpr int64_t swizzled_address(int64_t address, int swizzle) {
  return swizzle == 0 ? address : address ^ (((address >> 7) & (swizzle / 16 - 1)) << 4);
}

/// Address of an element of a factor in shared memory. `row` is its row, or column of the second
/// factor; `term` its place along the reduction. Requires: 16 bits if MN-major.
int64_t element_address(const MatrixDescriptor& descriptor, bool is_mn_major, int element_bytes,
                        int64_t row, int64_t term);

/// Row and column of an accumulator: register `i` of the thread `lane` of a warp (mma.sync, C and D
/// with 8 columns) or of a warpgroup (wgmma).
std::pair<int, int> accumulator_place(int thread, int i);
/// Row and term of element `j` of register `i` in a lane's fragment of A (16 rows).
std::pair<int, int> a_fragment_place(int lane, int i, int j, int elements);
/// Term and column of element `j` of register `i` in a lane's fragment of B (8 columns).
std::pair<int, int> b_fragment_place(int lane, int i, int j, int elements);

/// Places of a box's elements: byte offset in the tensor, or -1 outside of it, and the address in
/// shared memory.
struct BoxElement {
  int64_t from = -1, to = 0;
};
std::vector<BoxElement> box_elements(const std::vector<int64_t>& extents,
                                     const std::vector<int64_t>& strides,
                                     const std::vector<int64_t>& box, int element_bytes,
                                     int swizzle, const std::vector<int64_t>& first, int64_t to);

}  // namespace tw::ptx
