// SPDX-License-Identifier: Apache-2.0
#pragma once
// Occupancy of a GPU: the number of blocks of threads that are resident on a multiprocessor at a
// time, and the resource that limits this number. Plain values.

#include <string_view>

#include "base/machine.h"

namespace tw::cost_model {

// Units in which resources are allocated: whole warps, 8 registers per thread, 128 bytes of shared
// memory. CUDA also reserves 1 KiB of shared memory for each block. The units and the reserved
// memory are those of CUDA's occupancy calculator.
inline constexpr double registers_granule = 8, reserved_shared_bytes = 1024;

/// The numbers of resident blocks on a multiprocessor that each resource would allow if it were the
/// only limit. The smallest of these numbers is the number of resident blocks.
struct Residency {
  double by_threads = 0;
  double by_registers = 0;
  double by_shared_memory = 0;
  double by_slots = 0;  ///< limit of the multiprocessor on the number of blocks, whatever their
                        ///< size

  /// Returns the number of resident blocks; 0 if not even one block fits.
  double blocks() const;
  /// Returns the name of the limiting resource: "threads", "registers", "shared memory" or "slots
  /// for blocks".
  std::string_view limit() const;
};

/// Computes the residency of blocks of `threads` threads, with `registers` registers for each
/// thread and `shared_bytes` of shared memory for each block. Requires: threads >= 1.
Residency residency(double threads, double registers, double shared_bytes, const Gpu& gpu);

/// Returns the occupancy, i.e. resident warps / warps that can be resident, if `blocks` blocks of
/// `threads` threads are resident.
double occupancy(double blocks, double threads, const Gpu& gpu);

}  // namespace tw::cost_model
