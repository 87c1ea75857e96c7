// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels of fixed text that sum up an array in the memory of a device, so that it need not be read
// back to be compared with one that is known. Free functions; thread-safe.

#include <cstdint>

#include "base/hash.h"
#include "runtime/device.h"

namespace tw::codegen {

/// Code with a kernel `checksum(const uint32_t* data, const uint64_t* words, uint64_t* sums)`:
/// thread t of n writes to sums[t] the sum of checksum_term(i, data[i]) over i = t, t + n, ...
/// below *words, modulo 2^64.
struct ChecksumKernel {
  runtime::DeviceCode code;
  int threads = 0;  ///< threads of a block
};

ChecksumKernel cuda_checksum_kernel();
ChecksumKernel opencl_checksum_kernel();

/// What a word adds: another value for each pair of a word and an index below 2^32.
constexpr uint64_t checksum_term(uint64_t index, uint32_t word) {
  return scrambled(index << 32 | word);
}

}  // namespace tw::codegen
