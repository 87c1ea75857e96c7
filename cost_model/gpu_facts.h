// SPDX-License-Identifier: Apache-2.0
#pragma once
// The numbers of a GPU's Program that its speed depends on: what a block of threads needs, what its
// warps execute, and which bytes move. Instructions are a warp's: 32 lanes at once, whether all
// compute or not. Which sectors and banks a warp touches is found by evaluating the addresses of
// its lanes at sampled points. Plain values.

#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "schedules/program.h"

namespace tw::cost_model {

struct WarpInstructions {
  double fma = 0;         ///< multiply and add in one
  double tensor = 0;      ///< of tensor tiles
  double arithmetic = 0;  ///< other arithmetic on elements
  double calls = 0;       ///< exp, tanh, ...
  double integer = 0;     ///< indices, conditions, loop counters
  double global_loads = 0, global_stores = 0;
  double shared = 0;  ///< loads and stores of shared memory
  double local = 0;   ///< of a thread's own buffer at an index that is no constant

  double global() const { return global_loads + global_stores; }
  double total() const {
    return fma + tensor + arithmetic + calls + integer + global() + shared + local;
  }
  void add(const WarpInstructions& other, double times);
};

/// A section is straight-line code of threads: statements with the same innermost serial loop, or
/// directly in the same nest of thread loops. Of one execution by one warp, where not said.
struct SectionFacts {
  WarpInstructions instructions;
  double executions = 0;  ///< by one block
  double warps = 1;       ///< that execute it
  double sectors = 0;     ///< of 32 bytes, loaded and stored
  double stored_sectors = 0;
  double shared_cycles = 0;  ///< of the banks
  double accumulators = 1;   ///< independent sums
  double chain = 0;          ///< updates of one of them, one after another
  double tensor_chain = 0;   ///< of these, by tensor tiles
  double tensor_fma = 0;     ///< multiply-adds of a warp by tensor tiles, as of 16-bit floats
  double operands = 0;       ///< registers for values on their way
  double trips = 1;          ///< of the innermost serial loop, where each thread has its own
  double waits = 0;          ///< for global loads that none since a barrier has asked for
};

/// A loop whose iterations wait for copies into shared memory that were started some iterations
/// before, asynchronously.
struct PipelineFacts {
  double entries = 0;                          ///< by one block
  double iterations = 0;                       ///< by one block, of all entries
  double ahead = 1;                            ///< iterations
  size_t first_section = 0, last_section = 0;  ///< of those inside of it, the last not included
};

struct GpuPhaseFacts {
  double blocks = 0;
  double threads = 0;  ///< of a block, here and below
  double warps = 0;
  double registers = 0;  ///< of a thread, an estimate: own buffers, operands, addresses
  double spills = 0;     ///< of these, more than a thread can have
  double shared_bytes = 0;
  double barriers = 0;
  double resident = 0;        ///< blocks at once on a multiprocessor; 0: a block does not fit
  double occupancy = 0;       ///< resident threads / threads that fit
  double waves = 0;           ///< blocks / blocks at once on all multiprocessors
  double tail = 0;            ///< blocks of the busiest multiprocessor / of the average one
  double pipeline_depth = 0;  ///< iterations in shared memory at once, of the deepest pipeline
  std::vector<SectionFacts> sections;
  std::vector<PipelineFacts> pipelines;
  WarpInstructions instructions;  ///< of the phase, here and below
  double useful_lanes = 0;        ///< active lanes of memory instructions / all lanes, 0 to 1
  double sectors = 0, ideal_sectors = 0;  ///< touched, and if all lanes were neighbours
  double shared_cycles = 0;
  double wide_bytes = 0;       ///< of one access of a thread, on average over global accesses
  double requested_bytes = 0;  ///< sectors of loads: what warps ask L1 for
  double l2_bytes = 0;         ///< between L1 and L2
  double dram_bytes = 0;
  double bytes_in_flight = 0;  ///< that a block asks for before it waits, at most
  double unique_bytes = 0;     ///< different bytes: traffic where nothing is fetched twice
};

struct GpuFacts {
  std::vector<GpuPhaseFacts> phases;
};

/// Requires: a GPU. Fails on programs that are not well formed.
Result<GpuFacts> extract_gpu_facts(const schedules::Program& program, const Target& target);

}  // namespace tw::cost_model
