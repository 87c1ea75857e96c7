// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many blocks of threads a multiprocessor holds at once, and which of its resources says so.
// Plain values.

#include <string_view>

#include "base/machine.h"

namespace tw::cost_model {

// What is handed out at once: whole warps, registers of a thread by eights, shared memory by 128
// bytes, of which CUDA takes 1 KiB of each block for itself (CUDA's occupancy calculator).
inline constexpr double registers_granule = 8, reserved_shared_bytes = 1024;

/// Blocks as each resource alone would have it.
struct Residency {
  double by_threads = 0;
  double by_registers = 0;
  double by_shared_memory = 0;
  double by_slots = 0;  ///< for blocks, however small they are

  /// Whole ones at once; 0: a block does not fit.
  double blocks() const;
  /// "threads", "registers", "shared memory" or "slots for blocks".
  std::string_view limit() const;
};

/// Of blocks whose threads have so many registers each, shared bytes being of a block. Requires:
/// threads >= 1.
Residency residency(double threads, double registers, double shared_bytes, const Gpu& gpu);

}  // namespace tw::cost_model
