// SPDX-License-Identifier: Apache-2.0
#pragma once
// Machine: everything that is known about a device, as numbers with units. Search spaces, the
// analytic model, features, explanations and the limits of GPUs read a Machine. No other code holds
// a constant of a particular processor.
//
// The numbers come from a table of known microarchitectures (machine.cpp), or are measured by a
// calibration (tuner/measure/calibration.h) if the table lacks the device or the system reports
// other cache sizes than the table. A Target carries the Machine that its kernels are tuned for.
// Plain values; thread-safe to share.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw {

/// Threads of a warp, on every GPU that kernels are generated for.
inline constexpr int warp_threads = 32;
/// `cuda_registers` is the number of 32-bit registers of a multiprocessor, and
/// `cuda_registers_per_thread` is the most that one thread can have. Both hold for every CUDA
/// architecture in the table.
inline constexpr int64_t cuda_registers = 64 << 10;
inline constexpr int cuda_registers_per_thread = 255;

/// Origin of the numbers of a Machine.
///   Table: the table has a row for the microarchitecture.
///   Calibrated: the numbers were measured on the device.
///   Assumed: the device is unknown. Either the target names no device ("x86-64-v3"), or the table
///     has no row for the processor, or the processor's caches differ from those of its row.
enum class MachineOrigin { Table, Calibrated, Assumed };
std::string_view to_string(MachineOrigin origin);

/// One level of the data caches.
struct CacheLevel {
  int64_t bytes = 0;  ///< size of one instance; 0: the machine lacks this level
  int ways = 8;       ///< associativity
  int line_bytes = 64;
  int cores = 1;               ///< number of cores that share one instance
  double bytes_per_cycle = 0;  ///< sustained read bandwidth of one core from this level

  /// Returns the bytes of one way, rounded down to a power of two, or 0 if the machine lacks this
  /// level. Addresses this far apart fall into the same set of the cache.
  int64_t way_bytes() const;
  bool operator==(const CacheLevel&) const = default;
};

/// Throughput of one core of a CPU per cycle, for vectors of `vector_bytes`.
struct Core {
  int vector_bytes = 16;      ///< width of the widest register that the instruction set allows
  int vector_registers = 16;  ///< number of these registers
  double clock_ghz = 3.5;     ///< under load
  double fma_per_cycle = 2;   ///< vector multiply-adds
  double fma_latency_cycles = 4;
  /// Number of dot-product instructions on vectors (schedules/program/dot_products.h) that start
  /// per cycle, if the factors are 8-bit integers, 16-bit integers or bf16. The number is
  /// fma_per_cycle if the core has no such instruction for the type.
  double byte_dots_per_cycle = 2, word_dots_per_cycle = 2, bf16_dots_per_cycle = 2;
  /// Throughput of tile instructions (schedules/program/core_tiles.h) for 8-bit integers and bf16,
  /// in vector dot products per cycle. A full tile instruction of Intel AMX counts as 256 dot
  /// products of 64-byte vectors. For a core without tiles this is fma_per_cycle.
  double byte_tile_dots_per_cycle = 2, bf16_tile_dots_per_cycle = 2;
  double loads_per_cycle = 2;   ///< vector loads that hit L1, including broadcasts
  double stores_per_cycle = 1;  ///< vector stores
  double instructions_per_cycle = 5;
  /// latency from a vector store to the end of a load of the same data
  double store_forward_cycles = 8;
  /// True if a multiply-add can broadcast an element in memory to all its lanes (AVX-512).
  bool embedded_broadcast = false;

  /// Returns the number of independent accumulators that keep the multiply-add units busy: 2
  /// multiply-adds per cycle with a latency of 4 cycles need 8.
  double accumulators_needed() const { return fma_per_cycle * fma_latency_cycles; }
  bool operator==(const Core&) const = default;
};

/// A GPU: resources of one multiprocessor, and bandwidths of the chip.
struct Gpu {
  int architecture = 0;      ///< compute capability times ten, e.g. 90; 0 for OpenCL devices
  double clock_ghz = 0;      ///< under load
  double fma_lanes = 0;      ///< f32 multiply-adds per cycle and multiprocessor
  double tensor_fma = 0;     ///< 16-bit multiply-adds of tensor cores per cycle and multiprocessor
  int resident_threads = 0;  ///< per multiprocessor
  int resident_blocks = 0;   ///< per multiprocessor
  int64_t registers = 0;     ///< 32-bit registers per multiprocessor
  int64_t shared_bytes = 0;  ///< shared memory per multiprocessor
  /// parts of a multiprocessor, each of which starts a warp instruction per cycle
  int schedulers = 4;
  double integer_lanes = 64;  ///< integer operations per cycle and multiprocessor
  /// speed of the tensor instructions of warpgroups / speed of the tensor instructions of warps
  double warpgroup_speed = 1;
  double fma_latency_cycles = 4, tensor_latency_cycles = 33, shared_latency_cycles = 28;
  /// Latency of a load that hits L1. A hit in L2 takes l2_latency_cycles more, and a read from DRAM
  /// takes dram_latency_cycles more than a hit in L2.
  double l1_latency_cycles = 35, l2_latency_cycles = 225, dram_latency_cycles = 350;
  double l2_gbps = 0;        ///< reads of all multiprocessors, GB/s
  double dram_gbps = 0;      ///< bandwidth that a copy reaches, GB/s
  int64_t memory_bytes = 0;  ///< size of device memory; 0: unknown
  // Limits of one block of threads.
  int block_threads = 0;
  int64_t block_shared_bytes = 0;
  int registers_per_thread = 0;

  /// The first architecture with a copy engine (TMA) that moves boxes of tensors to shared memory.
  static constexpr int tma_architecture = 90;
  bool has_tma() const { return architecture >= tma_architecture; }
  /// True if threads can copy from global to shared memory without waiting (cp.async).
  bool has_asynchronous_copies() const { return architecture >= 80; }
  bool operator==(const Gpu&) const = default;
};

struct Machine {
  std::string name = "generic";  ///< microarchitecture: "Zen 4", "sm_90"
  MachineOrigin origin = MachineOrigin::Assumed;
  int cores = 1;  ///< number usable by this process; for GPUs, the number of multiprocessors
  Core core;      ///< for GPUs, the registers of one thread, whose widest access is 16 bytes
  /// L1, L2 and L3 of a CPU. A GPU has two levels: the L1 of a multiprocessor together with its
  /// shared memory, and L2.
  std::array<CacheLevel, 3> caches = {
      {{32 << 10, 8, 64, 1, 64}, {512 << 10, 8, 64, 1, 48}, {8 << 20, 16, 64, 4, 12}}};
  double memory_bytes_per_cycle = 4.5;  ///< CPUs: read bandwidth of one core from main memory
  double cores_that_fill_memory = 4;    ///< CPUs: number of cores that saturate main memory
  std::optional<Gpu> gpu;               ///< set for GPUs only

  int64_t l1_bytes() const { return caches[0].bytes; }
  int64_t l2_bytes() const { return caches[1].bytes; }
  int64_t l3_bytes() const { return caches[2].bytes; }
  bool operator==(const Machine&) const = default;
};

/// The vector registers of an instruction set.
struct VectorSizes {
  int bytes = 16;      ///< bytes of one register
  int registers = 16;  ///< number of registers
  bool embedded_broadcast = false;
};

/// Looks up the processor that the text of /proc/cpuinfo describes. Returns the Machine of its row
/// in the table, with the vector registers `vectors`; nullopt if the table lacks the processor.
std::optional<Machine> machine_of_cpuinfo(std::string_view cpuinfo, VectorSizes vectors);

/// Returns the Machine of the table's row for a microarchitecture, e.g. "Zen 4", with the vector
/// registers `vectors`. Fails with Usage for an unknown name; the message lists the names.
Result<Machine> machine_by_name(std::string_view name, VectorSizes vectors);

/// Return machines with typical numbers, for targets that name no device. They are called "generic
/// x86-64" and "generic arm-64", and their origin is Assumed.
Machine generic_x86_64(VectorSizes vectors);
Machine generic_arm_64(VectorSizes vectors);

/// Returns `machine` with other cache sizes: `bytes` has the sizes of L1, L2 and L3 that the system
/// reports. A size of 0 means that the system does not report it; the cache then keeps the size
/// that it has in `machine`. If L1 or L2 differs, the numbers of `machine` are those of another
/// processor, so the origin of the result is Assumed. A different L3 does not change the origin,
/// because a virtual machine may see only part of a shared cache.
Machine with_caches(Machine machine, const std::array<int64_t, 3>& bytes);

/// Returns the names of the CPUs in the table.
std::vector<std::string> known_cpus();

/// Returns the Machine of the table's row for a GPU architecture, such as "sm_90a" or "opencl";
/// nullopt if the table has no such row.
std::optional<Machine> gpu_machine(std::string_view name);
/// Returns the names of the CUDA architectures in the table, oldest first.
std::vector<std::string> known_gpus();

/// True if the device should be calibrated, because it is a CPU whose numbers are only assumed.
/// Requires: `machine` describes the device that this process runs on.
bool needs_calibration(const Machine& machine);

/// Returns the name, followed by the origin in brackets unless the origin is Table: "Zen 4",
/// "generic x86-64 (assumed)".
std::string describe(const Machine& machine);

/// True if a real device could have these numbers: every rate is finite and lies, with a margin,
/// between the rates of the slowest and the fastest processors. Machines that come from the
/// database or from a calibration must pass this check.
bool is_plausible(const Machine& machine);

/// Returns a text with one `name value` pair per line, the form that the database stores.
/// parse_machine() gives back an equal value.
std::string to_string(const Machine& machine);
/// Reads the text of to_string(). Fails with Invalid if a name is missing, repeated or unknown, or
/// if the machine is not plausible. Only the rates of dot products may be missing; they are then
/// set to the rate of multiply-adds.
Result<Machine> parse_machine(std::string_view text);

}  // namespace tw
