// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels that compare arrays in the memory of a device, so that the arrays need not be copied to
// the host. Their source text is fixed. Free functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/hash.h"
#include "runtime/device.h"

namespace tw::codegen {

/// The code of the comparing kernels, and the size of the blocks to launch them with. Let a launch
/// have n threads. Thread t handles the elements t, t + n, t + 2 n, ... below *count, and writes 8
/// bytes:
/// - `checksum(const uint32_t* data, const uint64_t* count, uint64_t* sums)`: sums[t] is the sum of
///   checksum_term(i, data[i]), modulo 2^64.
/// - `difference_f32(const float* got, const float* expected, const uint64_t* count, uint32_t*
///   largest)`: largest[2 t] is the largest |got[i] - expected[i]|, and largest[2 t + 1] the
///   largest |expected[i]|. Both are computed in f32, and their bits are stored as an integer.
///   Comparing these integers is the same as comparing the numbers, except that NaN is the largest.
///   Elements with equal bits have the difference 0, also if they are infinite or NaN.
/// - `difference_f16` and `difference_bf16`: like difference_f32, for arrays of these types.
struct CompareKernels {
  runtime::DeviceCode code;
  int threads = 0;  ///< threads of a block
};

CompareKernels cuda_compare_kernels();
CompareKernels opencl_compare_kernels();

/// Returns the name of the kernel that compares arrays of this type; nullopt if no kernel does.
std::optional<std::string> difference_kernel(DType type);

/// Returns the number that the kernel `checksum` adds to its sum for `word` at `index`. Different
/// pairs of an index below 2^32 and a word give different numbers.
constexpr uint64_t checksum_term(uint64_t index, uint32_t word) {
  return scrambled(index << 32 | word);
}

}  // namespace tw::codegen
