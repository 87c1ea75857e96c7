// SPDX-License-Identifier: Apache-2.0
#pragma once
// The numbers of a Program that its speed depends on, found in one walk over its loops. The
// features that models learn from are a view of them, and the analytic model is a formula over
// them. Plain values.
//
// Counts are per kernel call and of instructions as a vectorizing compiler would emit them: an
// unrolled statement counts each copy, a vector of 16 floats counts two registers on AVX2 and one
// on AVX-512. Averages where loops are trimmed, so counts are doubles.

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

/// Statements of a block that LLVM schedules well. In longer ones it moves loads across the block
/// until nearly every value spills: 14 x 2 tiles ran at 118 GF/s with 336 unrolled FMAs and at 38
/// GF/s with 1344 (1373 spill instructions in the assembly).
inline constexpr double most_scheduled_statements = 400;

/// Instructions of one kind of arithmetic or memory access.
struct Instructions {
  double fma = 0;  ///< multiply and add in one, dot products, and tiles of a core
  /// Time that dot products and tiles take beyond that of as many multiply-adds, in multiply-adds;
  /// negative where they take less.
  double slow_dots = 0;
  double arithmetic = 0;  ///< other adds, multiplies, comparisons, casts, selects
  double calls = 0;       ///< exp, tanh, ...
  /// Divisions and roots of floats, in divisions of 32 bytes of f32: the divider is not pipelined,
  /// so its time grows with the bytes. `arithmetic` counts the instructions.
  double divisions = 0;
  double vector_loads = 0, broadcast_loads = 0, strided_loads = 0, gather_loads = 0;
  double stores = 0;
  double scattered_stores = 0;  ///< of these, not to neighbouring elements
  double split_accesses = 0;    ///< vector loads and stores that straddle two lines
  double tests = 0;             ///< branches around statements; masked lanes are none
  double prefetches = 0;        ///< of a cache line each; they take load ports

  double loads() const { return vector_loads + broadcast_loads + strided_loads + gather_loads; }
  double compute() const { return fma + arithmetic + calls; }
  double total() const { return compute() + loads() + stores + tests + prefetches; }
  void add(const Instructions& other, double times);
};

/// A block is straight-line code: all statements with the same innermost serial loop, its unrolled
/// and vector loops expanded. Instructions are of one execution of the block.
struct BlockFacts {
  Instructions instructions;
  double executions = 0;
  double flops = 0;
  double statements = 0;         ///< after unrolling, one a vector register
  double accumulators = 0;       ///< independent chains of updates, in registers
  double chain = 0;              ///< dependent updates of one accumulator
  double buffer_registers = 0;   ///< that the Register buffers in scope need
  double operand_registers = 0;  ///< values kept for later statements of the block
  double spills = 0;             ///< registers needed beyond the target's
  double reloads = 0;            ///< values shared by statements, that no register keeps between
  double lanes = 1;              ///< of the vector loop
  double lane_use = 0;           ///< lanes that compute / lanes of the registers used
  double element_bytes = 4;
  double reduction_depth = 1;  ///< reduction steps unrolled into the block
  double trips = 1;            ///< of the innermost serial loop
  double serial_depth = 0;     ///< serial loops and task axes around
  bool in_loop = false;        ///< the block is the body of a serial loop
  bool loop_reduces = false;   ///< the innermost serial loop updates the same accumulators
  /// Iterations of serial loops that continue the same sums, before other sums begin that need not
  /// wait for them. 1 where no loop continues a sum; infinite in a block without sums.
  double sum_iterations = INFINITY;
  double unrolled_loops = 0;
  /// Bytes touched by one iteration of the innermost serial loop, by all its iterations, by those
  /// of the loop around it, ...; outward up to the task.
  std::vector<double> footprints;
};

/// Bytes moved into a cache level from the one behind it, per kernel call: L1, L2, L3. The call
/// before left what fits, unless the state of the caches says that it was evicted since. Those
/// of L3 include what is written back to memory.
constexpr int cache_levels = 3;
using Traffic = std::array<double, cache_levels>;

struct PhaseFacts {
  double tasks = 1;
  std::vector<BlockFacts> blocks;
  Traffic traffic{};
  /// Loads into each cache that nothing fetched ahead, one after another.
  Traffic waits{};
  double written_back = 0;  ///< of the traffic of L3, bytes that are written to memory
  /// Bytes from memory at the beginnings of stretches, until the prefetchers of the hardware are
  /// far ahead; twice those of stretches of up to 128 bytes, before which they fetch nothing.
  double begun = 0;
  double prefetched = 0;  ///< bytes of the lines that are requested ahead of their use
  double footprint = 0;   ///< bytes that the phase touches
  double task_footprint = 0;
  double serial_iterations = 0;
  double loop_entries = 0;
  double dynamic_entries = 0;  ///< of these, loops whose bounds are computed
};

struct KernelFacts {
  std::vector<PhaseFacts> phases;
  Instructions instructions;  ///< of all phases
  double flops = 0;           ///< executed, in guarded or padded lanes too
  double useful_flops = 0;    ///< without the products that a select replaces by a constant
  double lane_flops = 0;      ///< flops if every lane of every register counted
  double fma_flops = 0;
  double partial_flops = 0;  ///< under a trimmed or guarded tile that is not whole
  double loaded_bytes = 0;   ///< from L1, by load instructions
  double if_tests = 0;
  double selects = 0;
  double statements = 0;     ///< after unrolling: the size of the code
  double combine_bytes = 0;  ///< read-modify-write of memory: what blocking a reduction costs
  double output_writes = 0;  ///< elements of outputs written
  double argument_bytes = 0, constant_bytes = 0, output_bytes = 0, output_elements = 0;
  double scratch_bytes = 0, local_bytes = 0;
  std::optional<GpuFacts> gpu;  ///< of a GPU's program, whose threads are serial loops above

  /// The block that executes the most instructions; null for a program without statements.
  const BlockFacts* hot_block() const;
};

/// Fails on programs that are not well formed: unknown buffers, an index of the wrong rank.
Result<KernelFacts> extract_facts(const schedules::Program& program, const Target& target,
                                  dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::cost_model
