// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loops with a known amount of work, by which a processor is measured (peak.h, bandwidth.h,
// calibration.h). They use the widest vectors of a target, even if this program was compiled for
// narrower ones, and are optimized in every build. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/target.h"

namespace tw::tuner {

/// Block size of `read` and `copy` in bytes, and the alignment of all data that loops access.
inline constexpr size_t loop_block_bytes = 512;
/// Size of the window in L1 that `load` and `store` access repeatedly, in bytes.
inline constexpr size_t loop_window_bytes = 1024;

/// The loops for one instruction set. The counts are operations in one call, on vectors of
/// `vector_bytes`.
struct Loops {
  std::string_view isa;  ///< "avx512", "avx2", "avx" or "baseline"
  int vector_bytes = 16;
  /// f32 multiply-adds with enough independent sums to hide their latency. Without a multiply-add
  /// instruction each is a multiplication and an addition.
  void (*fma)(volatile float* seed) = nullptr;
  double fmas = 0;
  /// f32 multiply-adds of a single sum, each dependent on the one before.
  void (*fma_chain)(volatile float* seed) = nullptr;
  double chained_fmas = 0;
  /// Only loads from the window at `data`.
  void (*load)(const std::byte* data) = nullptr;
  /// Only stores to the window at `data`.
  void (*store)(std::byte* data) = nullptr;
  double window_accesses = 0;  ///< number of accesses in a call of `load` or `store`
  /// Reads all blocks once, from the first to the last.
  uint64_t (*read)(const std::byte* data, size_t bytes) = nullptr;
  /// Copies all blocks by ordinary stores, as kernels do.
  void (*copy)(const std::byte* from, std::byte* to, size_t bytes) = nullptr;
  /// Dot products of vectors with independent sums, of 8-bit integers, 16-bit integers and bf16.
  /// Null if the target has no such instruction or is not x86-64.
  void (*byte_dots)() = nullptr;
  void (*word_dots)() = nullptr;
  void (*bf16_dots)() = nullptr;
  double dots = 0;  ///< number of dot products in a call of any of the three
  /// Products of full tiles with independent sums, by the core's tile instructions. Null if the
  /// target has none. Requires: the process may use the tile registers (base/isa.h).
  void (*byte_tiles)() = nullptr;
  void (*bf16_tiles)() = nullptr;
  double tile_dots = 0;  ///< number of dot products of 64-byte vectors in a call of either loop
};

/// The loops with the widest vectors of the target. They may only be called on a processor that has
/// the instruction sets of the target.
Loops loops_for(const Target& target);

/// Integer additions of registers, each dependent on the one before. Each takes one cycle on every
/// processor, so that they show the clock rate. They have no immediate operands, because some
/// processors execute additions of immediates while renaming registers.
void addition_chain();
inline constexpr double chained_additions = 16 * 1024;

/// Independent instructions of several kinds: half are integer additions, the others loads and
/// vector additions by turns. No kind of execution unit limits the loop, so its speed is the number
/// of instructions that are decoded and retired per cycle. Reads the window at `data`.
void instruction_mix(const std::byte* data);
inline constexpr double mixed_instructions = 1024 * (16 * 4 + 2);

}  // namespace tw::tuner
