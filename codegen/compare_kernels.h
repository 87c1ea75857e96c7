// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels of fixed text that compare arrays in the memory of a device, so that they need not be
// read back. Free functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/hash.h"
#include "runtime/device.h"

namespace tw::codegen {

/// Code with these kernels, each thread t of n of which looks at the elements i = t, t + n, ...
/// below *count, and writes 8 bytes:
/// - `checksum(const uint32_t* data, const uint64_t* count, uint64_t* sums)`: sums[t] is the sum of
///   checksum_term(i, data[i]), modulo 2^64;
/// - `difference_f32(const float* got, const float* expected, const uint64_t* count,
///   uint32_t* largest)`: largest[2 t] is the largest |got[i] - expected[i]|, in f32, and
///   largest[2 t + 1] the largest |expected[i]|, both as the bits of an f32, which order as the
///   numbers do, with NaN above all. Elements that are the same differ by 0, also where they are
///   not finite;
/// - `difference_f16` and `difference_bf16`: the same for other elements.
struct CompareKernels {
  runtime::DeviceCode code;
  int threads = 0;  ///< threads of a block
};

CompareKernels cuda_compare_kernels();
CompareKernels opencl_compare_kernels();

/// Name of the difference kernel for elements of this type; nullopt for a type without one.
std::optional<std::string> difference_kernel(DType type);

/// Term of the word at an index in the sum of checksum(). Each pair of a word and an index below
/// 2^32 has a different term.
constexpr uint64_t checksum_term(uint64_t index, uint32_t word) {
  return scrambled(index << 32 | word);
}

}  // namespace tw::codegen
