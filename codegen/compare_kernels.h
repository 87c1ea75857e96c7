// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels of fixed text that compare arrays in the memory of a device, so that the arrays need not
// be copied to the host. Free functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/hash.h"
#include "runtime/device.h"

namespace tw::codegen {

/// The code of the kernels below. Each of the n threads of a launch writes 8 bytes. Thread t
/// handles the elements of index t, t + n, t + 2 n, ... below *count:
/// - `checksum(const uint32_t* data, const uint64_t* count, uint64_t* sums)`: sums[t] is the sum of
///   checksum_term(i, data[i]), modulo 2^64;
/// - `difference_f32(const float* got, const float* expected, const uint64_t* count, uint32_t*
///   largest)`: largest[2 t] is the largest |got[i] - expected[i]|, and largest[2 t + 1] the
///   largest |expected[i]|. Both are computed in f32 and stored as the bits of an f32, which as
///   integers order like the numbers, with NaN above all. Equal elements differ by 0, even if they
///   are not finite;
/// - `difference_f16` and `difference_bf16`: like difference_f32, for arrays of these types.
struct CompareKernels {
  runtime::DeviceCode code;
  int threads = 0;  ///< threads of a block
};

CompareKernels cuda_compare_kernels();
CompareKernels opencl_compare_kernels();

/// Returns the name of the difference kernel for elements of this type; nullopt if the type has
/// none.
std::optional<std::string> difference_kernel(DType type);

/// Returns the term that a word at an index contributes to the sum of checksum(). Different pairs
/// of a word and an index below 2^32 have different terms.
constexpr uint64_t checksum_term(uint64_t index, uint32_t word) {
  return scrambled(index << 32 | word);
}

}  // namespace tw::codegen
