// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loops with a known number of operations, whose times show the rates of a processor (peak.h,
// bandwidth.h, calibration.h). They use the widest vectors of a target, even if this program was
// compiled for narrower ones, and are optimized in every build. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/target.h"

namespace tw::tuner {

/// `read` and `copy` work on blocks of this size, so they need a multiple of it, in bytes.
inline constexpr size_t loop_block_bytes = 512;
/// Size of the window in L1 that `load` and `store` access repeatedly, in bytes.
inline constexpr size_t loop_window_bytes = 1024;

/// The loops for one instruction set. A member of type double is the number of operations in one
/// call of the loops above it. An operation works on a vector of `vector_bytes`, unless the member
/// says otherwise. All data must be aligned to `vector_bytes`.
struct Loops {
  std::string_view isa;  ///< "avx512", "avx2", "avx" or "baseline"
  int vector_bytes = 16;
  /// f32 multiply-adds with enough independent sums to hide their latency. On a processor without a
  /// multiply-add instruction, an operation is a multiplication and an addition. `seed` is read and
  /// written, so that the compiler cannot leave the loop out.
  void (*fma)(volatile float* seed) = nullptr;
  double fmas = 0;
  /// f32 multiply-adds of a single sum, so that each waits for the one before it.
  void (*fma_chain)(volatile float* seed) = nullptr;
  double chained_fmas = 0;
  /// Loads from the window of loop_window_bytes at `data`, and no other memory accesses.
  void (*load)(const std::byte* data) = nullptr;
  /// Stores to the window of loop_window_bytes at `data`, and no other memory accesses.
  void (*store)(std::byte* data) = nullptr;
  double window_accesses = 0;  ///< number of accesses in a call of `load` or `store`
  /// Reads `bytes` bytes once, from the first block to the last. The result depends on all vectors
  /// that are read, so that no read is optimized away.
  uint64_t (*read)(const std::byte* data, size_t bytes) = nullptr;
  /// Copies `bytes` bytes by ordinary stores, as kernels use them, and not by streaming stores.
  void (*copy)(const std::byte* from, std::byte* to, size_t bytes) = nullptr;
  /// Dot products of vectors with independent sums: of 8-bit integers, of 16-bit integers and of
  /// bf16. Null if there is no loop for the target. All three are null outside of x86-64.
  /// `byte_dots` needs AVX-512 VNNI, and `bf16_dots` AVX-512 BF16. `word_dots` exists for
  /// "baseline" and "avx2", and for "avx512" with AVX-512 BW.
  void (*byte_dots)() = nullptr;
  void (*word_dots)() = nullptr;
  void (*bf16_dots)() = nullptr;
  double dots = 0;  ///< number of dot products in a call of one of the three loops
  /// Products of full matrix tiles with independent sums, by the core's tile instructions (such as
  /// Intel's AMX). `byte_tiles` multiplies 8-bit integers, `bf16_tiles` bf16. Null if the target
  /// has no such tile instructions. Requires: the process may use the tile registers (base/isa.h).
  void (*byte_tiles)() = nullptr;
  void (*bf16_tiles)() = nullptr;
  /// Number of dot products of 64-byte vectors in a call of one of the two loops.
  double tile_dots = 0;
};

/// Returns the loops with the widest vectors of the target. They may only be called on a processor
/// that has the instruction sets of the target.
Loops loops_for(const Target& target);

/// Adds integer registers; each addition waits for the one before it. An addition takes one cycle
/// on every processor, so the time of a call shows the clock rate. There are no immediate operands,
/// because some processors execute additions of immediates while renaming registers.
void addition_chain();
inline constexpr double chained_additions = 16 * 1024;

/// Executes independent instructions: half are integer additions, a quarter are loads from the
/// window at `data`, and a quarter are vector additions. No execution unit limits this mixture, so
/// the time of a call shows how many instructions a core decodes and retires per cycle.
void instruction_mix(const std::byte* data);
inline constexpr double mixed_instructions = 1024 * (16 * 4 + 2);

}  // namespace tw::tuner
