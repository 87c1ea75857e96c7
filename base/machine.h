// SPDX-License-Identifier: Apache-2.0
#pragma once
// Machine: everything that is known about a device, as numbers with units. Search spaces, the
// analytic model, features, explanations and the limits of GPUs read it, and no other code holds a
// constant of a particular processor.
//
// The numbers come from a table of known microarchitectures (machine.cpp) where the device is in
// it and its caches are as the table says, and from a calibration where it is not
// (tuner/calibration.h). A Target carries the Machine that its kernels are tuned for. Plain
// values; thread-safe to share.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw {

/// Where the numbers of a Machine come from.
///   Table: a known microarchitecture.
///   Calibrated: measured on the device.
///   Assumed: the target names no device, as "x86-64-v3" does; a usual one of that instruction set.
enum class MachineOrigin { Table, Calibrated, Assumed };
std::string_view to_string(MachineOrigin origin);

/// One level of the data caches of a CPU.
struct CacheLevel {
  int64_t bytes = 0;  ///< of one instance
  int ways = 8;       ///< associativity
  int line_bytes = 64;
  int cores = 1;               ///< that share one instance
  double bytes_per_cycle = 0;  ///< that one core reads from this level, sustained
};

/// What one core of a CPU executes per cycle, with vectors of `vector_bytes`.
struct Core {
  int vector_bytes = 16;      ///< width of the widest register that the instruction set allows
  int vector_registers = 16;  ///< number of these registers
  double clock_ghz = 3.5;     ///< under load
  double fma_per_cycle = 2;   ///< vector multiply-adds
  double fma_latency_cycles = 4;
  double loads_per_cycle = 2;   ///< vector loads that hit L1
  double stores_per_cycle = 1;  ///< vector stores
  double instructions_per_cycle = 5;
};

/// A GPU: resources of one multiprocessor, and bandwidths of the chip.
struct Gpu {
  int architecture = 0;  ///< compute capability times ten, e.g. 90; 0 for OpenCL devices
  int warp_threads = 32;
  double clock_ghz = 1.5;  ///< under load
  double fma_lanes = 128;  ///< f32 multiply-adds per cycle and multiprocessor
  double tensor_fma = 0;   ///< 16-bit multiply-adds of tensor cores per cycle and multiprocessor
  int resident_threads = 1024;      ///< per multiprocessor
  int resident_blocks = 16;         ///< per multiprocessor
  int64_t registers = 64 << 10;     ///< 32-bit registers per multiprocessor
  int64_t shared_bytes = 64 << 10;  ///< shared memory per multiprocessor
  int64_t l1_bytes = 128 << 10;     ///< L1 and shared memory together, per multiprocessor
  int64_t l2_bytes = 4 << 20;
  double l2_gbps = 1500;   ///< reads of all multiprocessors, GB/s
  double dram_gbps = 400;  ///< what a copy reaches, GB/s
  // Limits of one block of threads.
  int block_threads = 1024;
  int64_t block_shared_bytes = 48 << 10;
  int registers_per_thread = 255;
};

struct Machine {
  std::string name;  ///< microarchitecture: "Zen 4", "sm_90"
  MachineOrigin origin = MachineOrigin::Assumed;
  int cores = 1;                        ///< usable by this process; a GPU's multiprocessors
  Core core;                            ///< of CPUs
  std::vector<CacheLevel> caches;       ///< of CPUs: L1, L2, L3
  double memory_bytes_per_cycle = 4.5;  ///< of CPUs: what one core reads from main memory
  double cores_that_fill_memory = 4;    ///< of CPUs: cores that together saturate main memory
  int64_t memory_bytes = 0;             ///< of GPUs; 0 where unknown
  Gpu gpu;                              ///< of GPUs
};

/// One `name value` pair per line; parse_machine() gives back an equal value. What the database
/// keeps.
std::string to_string(const Machine& machine);
Result<Machine> parse_machine(std::string_view text);

}  // namespace tw
