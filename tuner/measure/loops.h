// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loops whose work is known, by which a processor is measured: peak.h, bandwidth.h, calibration.h.
// They use the widest vectors of a target, whatever this program was compiled for, and are
// optimized in every build. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/target.h"

namespace tw::tuner {

/// Bytes that `read` and `copy` go by, and the alignment of what loops read and write.
inline constexpr size_t loop_block_bytes = 512;
/// Bytes that `load` and `store` go over again and again, in L1.
inline constexpr size_t loop_window_bytes = 1024;

/// Versions for one instruction set. The counts are of one call, of vectors of `vector_bytes`.
struct Loops {
  std::string_view isa;  ///< "avx512", "avx2", "avx" or "baseline"
  int vector_bytes = 16;
  /// f32 multiply-adds of independent sums, enough of them to hide the latency; a multiplication
  /// and an addition where the instruction set has no multiply-add.
  void (*fma)(volatile float* seed) = nullptr;
  double fmas = 0;
  /// f32 multiply-adds of one sum, each dependent on the one before.
  void (*fma_chain)(volatile float* seed) = nullptr;
  double chained_fmas = 0;
  /// Loads of the window at `data`, and nothing else.
  void (*load)(const std::byte* data) = nullptr;
  /// Stores to the window at `data`, and nothing else.
  void (*store)(std::byte* data) = nullptr;
  double window_accesses = 0;  ///< of load and of store
  /// Reads whole blocks from the first to the last, once.
  uint64_t (*read)(const std::byte* data, size_t bytes) = nullptr;
  /// Copies whole blocks by ordinary stores, as kernels do.
  void (*copy)(const std::byte* from, std::byte* to, size_t bytes) = nullptr;
  /// Dot products of vectors whose sums are independent of each other, by their factors: integers
  /// of 8 bits, integers of 16 bits, bf16. Null where the target has none, or is not x86-64.
  void (*byte_dots)() = nullptr;
  void (*word_dots)() = nullptr;
  void (*bf16_dots)() = nullptr;
  double dots = 0;  ///< of each of the three
  /// Products of full tiles of the core by independent sums, by their factors. Null where the
  /// target has none. Requires: the process may use the registers (base/isa.h).
  void (*byte_tiles)() = nullptr;
  void (*bf16_tiles)() = nullptr;
  double tile_dots = 0;  ///< dot products of vectors of 64 bytes in each of the two
};

/// The versions with the widest vectors of the target. Calling them requires a processor that has
/// its instruction sets.
Loops loops_for(const Target& target);

/// Integer additions of registers, each dependent on the one before: one cycle each on every
/// processor, so that they show the clock at which others run. No immediate operands, which some
/// processors add while renaming registers.
void addition_chain();
inline constexpr double chained_additions = 16 * 1024;

/// Independent instructions of several kinds, half of them integer additions, the others loads and
/// vector additions by turns: no kind of unit is asked for more than it has, so what is decoded and
/// retired per cycle bounds the loop. Reads the window at `data`.
void instruction_mix(const std::byte* data);
inline constexpr double mixed_instructions = 1024 * (16 * 4 + 2);

}  // namespace tw::tuner
