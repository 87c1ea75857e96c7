// SPDX-License-Identifier: Apache-2.0
#pragma once
// What GPUs of an architecture can do at once: the numbers that the facts and the draft model of
// GPU programs divide by. Plain values.

#include <cstdint>
#include <string_view>

#include "base/target.h"

namespace tw::cost_model {

inline constexpr int warp_lanes = 32;
inline constexpr double sector_bytes = 32;  ///< what L1 and L2 fetch by
inline constexpr int shared_banks = 32;     ///< of 4 bytes each, one access a cycle each

struct GpuArchitecture {
  std::string_view name;
  int multiprocessors;
  double clock_ghz;   ///< under load
  double fma_lanes;   ///< f32 multiply-adds a cycle and multiprocessor
  double tensor_fma;  ///< those of 16-bit floats, by tensor tiles; of tf32 half, of bytes twice
  int threads;        ///< resident on a multiprocessor, here and below
  int blocks;
  int64_t registers;     ///< of 32 bits
  int64_t shared_bytes;  ///< of which a block takes 1 KiB for itself
  int64_t l1_bytes;      ///< L1 and shared memory together
  int64_t l2_bytes;
  double l2_bytes_per_ns;    ///< GB/s: reads of all multiprocessors
  double dram_bytes_per_ns;  ///< GB/s: what a copy reaches
};

/// The target's row, with the target's number of multiprocessors; of OpenCL, a middling chip.
/// Requires: a GPU.
GpuArchitecture gpu_architecture(const Target& target);

}  // namespace tw::cost_model
