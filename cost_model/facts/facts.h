// SPDX-License-Identifier: Apache-2.0
#pragma once
// The facts of a Program: the numbers that its speed depends on, found in one walk over its loops.
// The features that models learn from are a view of the facts, and the analytic model is a formula
// over them. Plain values.
//
// Counts are per kernel call, and of instructions as a vectorizing compiler would emit them: an
// unrolled statement counts each copy, and a vector of 16 floats counts two registers on AVX2 and
// one on AVX-512. Counts are averages where loops are trimmed, so they are doubles.

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

/// Number of statements up to which LLVM schedules a block well. In longer blocks it moves loads
/// across the block until nearly every value spills: 14 x 2 tiles ran at 118 GF/s with 336 unrolled
/// FMAs and at 38 GF/s with 1344 (1373 spill instructions in the assembly).
inline constexpr double most_scheduled_statements = 400;

/// Numbers of instructions, by kind.
struct Instructions {
  double fma = 0;  ///< fused multiply-adds, dot products, and tiles of a core
  /// The time of dot products and tiles beyond that of the same number of multiply-adds, in
  /// multiply-adds; negative if they take less.
  double slow_dots = 0;
  double arithmetic = 0;  ///< other adds, multiplies, comparisons, casts, selects
  double calls = 0;       ///< exp, tanh, ...
  /// Divisions and roots of floats, in divisions of 32 bytes of f32: the divider is not pipelined,
  /// so its time grows with the bytes. `arithmetic` counts the instructions.
  double divisions = 0;
  double vector_loads = 0, broadcast_loads = 0, strided_loads = 0, gather_loads = 0;
  double stores = 0;
  double scattered_stores = 0;  ///< the part of `stores` whose lanes are not contiguous
  double split_accesses = 0;    ///< vector loads and stores that straddle two lines
  double tests = 0;             ///< branches around statements, without masks
  double prefetches = 0;        ///< prefetches of one cache line each; they take load ports

  double loads() const { return vector_loads + broadcast_loads + strided_loads + gather_loads; }
  double compute() const { return fma + arithmetic + calls; }
  double total() const { return compute() + loads() + stores + tests + prefetches; }
  void add(const Instructions& other, double times);
};

/// Facts of a block, which is straight-line code: all statements with the same innermost serial
/// loop, with unrolled and vector loops expanded. Instructions are those of one execution of the
/// block.
struct BlockFacts {
  Instructions instructions;
  double executions = 0;
  double flops = 0;
  double statements = 0;         ///< statements after unrolling, one for each vector register
  double accumulators = 0;       ///< independent chains of updates, in registers
  double chain = 0;              ///< dependent updates of one accumulator
  double buffer_registers = 0;   ///< registers that the Register buffers in scope need
  double operand_registers = 0;  ///< registers for values that later statements of the block use
  double spills = 0;             ///< registers needed beyond those of the target
  double reloads = 0;   ///< loads of values that statements share, but that no register keeps
  double lanes = 1;     ///< lanes of the vector loop
  double lane_use = 0;  ///< lanes that compute / lanes of the registers in use
  double element_bytes = 4;
  double reduction_depth = 1;  ///< number of reduction steps that are unrolled into the block
  double trips = 1;            ///< iterations of the innermost serial loop
  double serial_depth = 0;     ///< number of serial loops and task axes around the block
  bool in_loop = false;        ///< true if the block is the body of a serial loop
  /// True if the innermost serial loop updates the same accumulators in each iteration.
  bool loop_reduces = false;
  /// Number of iterations of serial loops that continue the same sums, before other, independent
  /// sums begin. 1 if no loop continues a sum; infinite in a block without sums.
  double sum_iterations = INFINITY;
  double unrolled_loops = 0;
  /// Bytes touched by one iteration of the innermost serial loop, by one iteration of the loop
  /// around it (all iterations of the innermost), and so on outward to the task.
  std::vector<double> footprints;
};

/// Bytes moved per kernel call into the caches L1, L2 and L3, each from the next level. The
/// previous call has left what fits, unless the state of the caches says that it was evicted since.
/// The bytes of L3 include those that are written back to memory.
constexpr int cache_levels = 3;
using Traffic = std::array<double, cache_levels>;

struct PhaseFacts {
  double tasks = 1;
  std::vector<BlockFacts> blocks;
  Traffic traffic{};
  /// Loads into each cache that wait one after another, because nothing has fetched their lines
  /// ahead.
  Traffic waits{};
  double written_back = 0;  ///< the part of the traffic of L3 that is written back to memory
  /// Bytes from memory at the beginnings of stretches, until the hardware prefetchers are far
  /// ahead. Bytes of stretches of up to 128 bytes count twice, because nothing is fetched ahead of
  /// those.
  double begun = 0;
  double prefetched = 0;  ///< bytes of lines that are requested ahead of their use
  double footprint = 0;   ///< bytes that the phase touches
  double task_footprint = 0;
  double serial_iterations = 0;
  double loop_entries = 0;
  double dynamic_entries = 0;  ///< the part of `loop_entries` whose bounds are computed
};

struct KernelFacts {
  std::vector<PhaseFacts> phases;
  Instructions instructions;  ///< instructions of all phases
  double flops = 0;  ///< operations that are executed, including those of guarded or padded lanes
  double useful_flops = 0;  ///< without products that a select replaces by a constant
  double lane_flops = 0;  ///< flops that would be executed if every lane of every register counted
  double fma_flops = 0;
  double partial_flops = 0;  ///< operations in trimmed or guarded tiles that are not whole
  double loaded_bytes = 0;   ///< bytes that load instructions read from L1
  double if_tests = 0;
  double selects = 0;
  double statements = 0;  ///< statements after unrolling: the size of the code
  /// Bytes read and written again to continue sums in memory: the cost of blocking a reduction.
  double combine_bytes = 0;
  double output_writes = 0;  ///< number of writes of elements of outputs
  double argument_bytes = 0, constant_bytes = 0, output_bytes = 0, output_elements = 0;
  double scratch_bytes = 0, local_bytes = 0;
  /// Facts of a GPU's program; the facts above treat its threads as serial loops.
  std::optional<GpuFacts> gpu;

  /// Returns the block that executes the most instructions; null for a program without statements.
  const BlockFacts* hot_block() const;
};

/// Extracts the facts of a program. Fails if it is not well formed: a buffer is unknown, or an
/// index has the wrong rank.
Result<KernelFacts> extract_facts(const schedules::Program& program, const Target& target,
                                  dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::cost_model
