// SPDX-License-Identifier: Apache-2.0
#pragma once
// The facts of a Program: the numbers that its speed depends on, such as instructions, registers
// and bytes. One walk over the loops of the program counts them. The features that models learn
// from (features.def) and the analytic model (analytic.h) are formulas over the facts. Plain
// values.
//
// Counts are numbers per kernel call of the instructions that a vectorizing compiler would emit.
// Each copy of an unrolled statement counts. A vector of 16 floats counts as two registers on AVX2
// and as one on AVX-512. Numbers are averages if loops are trimmed at borders, so they are doubles.

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "cost_model/facts/gpu_facts.h"
#include "dsl/cache_state.h"
#include "schedules/program/program.h"

namespace tw::cost_model {

/// Number of statements up to which LLVM schedules a block of straight-line code well. In longer
/// blocks LLVM moves loads across the block until nearly every value spills. For example, a tile of
/// 14 x 2 sums ran at 118 GF/s with 336 unrolled FMAs, and at 38 GF/s with 1344 FMAs, whose
/// assembly had 1373 spill instructions.
inline constexpr double most_scheduled_statements = 400;

/// Numbers of instructions, by kind.
struct Instructions {
  double fma = 0;  ///< fused multiply-adds, dot products, and core tiles (tensor tiles of a CPU
                   ///< core)
  /// Extra time of dot products and core tiles. `fma` counts each of them as one multiply-add; this
  /// is the rest of their time, in times of a multiply-add. It is negative if they are faster than
  /// a multiply-add. For example, a tile that takes as long as 16 multiply-adds adds 15.
  double slow_dots = 0;
  double arithmetic = 0;  ///< other adds, multiplies, comparisons, casts, selects
  double calls = 0;       ///< exp, tanh, ...
  /// Work of the divider by divisions and roots of floats, in units of a division of 32 bytes of
  /// f32. The divider is not pipelined, so the work grows with the bytes: a division of 64 bytes is
  /// 2 units. These instructions are also counted in `arithmetic`.
  double divisions = 0;
  double vector_loads = 0, broadcast_loads = 0, strided_loads = 0, gather_loads = 0;
  double stores = 0;
  double scattered_stores = 0;  ///< the part of `stores` whose lanes are not contiguous
  double split_accesses = 0;    ///< vector loads and stores that straddle two lines
  double tests = 0;             ///< branches around statements; masks do not count
  double prefetches = 0;  ///< prefetches of one cache line each; like loads, they use load ports

  double loads() const { return vector_loads + broadcast_loads + strided_loads + gather_loads; }
  double compute() const { return fma + arithmetic + calls; }
  double total() const { return compute() + loads() + stores + tests + prefetches; }
  void add(const Instructions& other, double times);
};

/// Facts of a block of straight-line code: all statements that have the same innermost serial loop,
/// with their unrolled and vector loops expanded. Counts are those of one execution of the block.
struct BlockFacts {
  Instructions instructions;
  double executions = 0;
  double flops = 0;
  double statements = 0;    ///< statements after unrolling, one for each vector register
  double accumulators = 0;  ///< independent chains of updates, in registers
  double chain = 0;         ///< updates of one accumulator, each of which waits for the one before
  double buffer_registers = 0;   ///< registers that the Register buffers in scope need
  double operand_registers = 0;  ///< registers for values that later statements of the block use
  double spills = 0;             ///< registers needed beyond those of the target
  double reloads = 0;   ///< loads of values that an earlier statement has loaded, but that no
                        ///< register keeps
  double lanes = 1;     ///< lanes of the vector loop
  double lane_use = 0;  ///< lanes that compute / lanes of the registers in use
  double element_bytes = 4;
  double reduction_depth = 1;  ///< number of reduction steps that are unrolled into the block
  double trips = 1;            ///< iterations of the innermost serial loop
  double serial_depth = 0;     ///< number of serial loops and task axes around the block
  bool in_loop = false;        ///< true if the block is the body of a serial loop
  /// True if all iterations of the innermost serial loop update the same accumulators.
  bool loop_reduces = false;
  /// Number of iterations of serial loops that add to the same sums before other, independent sums
  /// begin. It is 1 if each iteration has its own sums, and infinite in a block without sums.
  double sum_iterations = INFINITY;
  double unrolled_loops = 0;
  /// The bytes that one iteration touches, for each loop around the block from the innermost serial
  /// loop outward to the task. An iteration of an outer loop includes all iterations of the inner
  /// loops.
  std::vector<double> footprints;
};

/// Bytes that a kernel call moves into each of the caches L1, L2 and L3 from the next cache or from
/// memory. Data that fits into a cache is still there from the previous call, unless the state of
/// the caches (dsl::CacheState) says that other operators evicted it. The bytes of L3 include those
/// that are written back to memory.
constexpr int cache_levels = 3;
using Traffic = std::array<double, cache_levels>;

struct PhaseFacts {
  double tasks = 1;
  std::vector<BlockFacts> blocks;
  Traffic traffic{};
  /// Number of loads into each cache for which the core waits one after another, because no
  /// prefetcher has fetched their lines ahead.
  Traffic waits{};
  double written_back = 0;  ///< the part of the traffic of L3 that is written back to memory
  /// Bytes from memory at the beginnings of stretches. A stretch is a range of memory that is read
  /// from end to end, and its beginning is its first 8 KiB, for which the hardware prefetchers are
  /// not far ahead yet. The bytes of stretches of up to 128 bytes count twice, because no
  /// prefetcher fetches them at all.
  double begun = 0;
  double prefetched = 0;  ///< bytes of lines that are requested ahead of their use
  double footprint = 0;   ///< bytes that the phase touches
  double task_footprint = 0;
  double serial_iterations = 0;
  double loop_entries = 0;
  double dynamic_entries = 0;  ///< the part of `loop_entries` of loops whose bounds are computed
};

struct KernelFacts {
  std::vector<PhaseFacts> phases;
  Instructions instructions;  ///< instructions of all phases
  double flops = 0;  ///< operations that are executed, including those of guarded or padded lanes
  double useful_flops = 0;  ///< `flops` without products that a select replaces by a constant
  double lane_flops = 0;  ///< flops that would be executed if every lane of every register counted
  double fma_flops = 0;
  double partial_flops = 0;  ///< operations in trimmed or guarded tiles that are not whole
  double loaded_bytes = 0;   ///< bytes that load instructions read from L1
  double if_tests = 0;
  double selects = 0;
  double statements = 0;  ///< statements after unrolling: the size of the code
  /// Bytes of partial sums that are read and written again because a blocked reduction keeps its
  /// sums in memory between blocks.
  double combine_bytes = 0;
  double output_writes = 0;  ///< number of writes of elements of outputs
  double argument_bytes = 0, constant_bytes = 0, output_bytes = 0, output_elements = 0;
  double scratch_bytes = 0, local_bytes = 0;
  /// Facts of a program for a GPU; nullopt for processors. All other facts treat the threads of a
  /// GPU as serial loops.
  std::optional<GpuFacts> gpu;

  /// Returns the block that executes the most instructions; null for a program without statements.
  const BlockFacts* hot_block() const;
};

/// Extracts the facts of a program that is called with the caches in the given state. Fails if the
/// program is not well formed, i.e. if it accesses an unknown buffer, or a buffer by the wrong
/// number of indices.
Result<KernelFacts> extract_facts(const schedules::Program& program, const Target& target,
                                  dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::cost_model
