// SPDX-License-Identifier: Apache-2.0
#pragma once
// Static analysis of a Program for a GPU: the resources of a block of threads, the instructions of
// its warps, and the bytes that move. An instruction counts once per warp, however many of the 32
// lanes are active. The analysis evaluates the addresses of a warp's lanes at sampled points of the
// loops, and so finds the sectors and banks that the warp touches. Plain values.

#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "schedules/program/program.h"

namespace tw::cost_model {

struct WarpInstructions {
  double fma = 0;         ///< fused multiply-adds
  double tensor = 0;      ///< tensor-core instructions
  double arithmetic = 0;  ///< other arithmetic on elements
  double calls = 0;       ///< exp, tanh, ...
  double integer = 0;     ///< indices, conditions, loop counters
  double global_loads = 0, global_stores = 0;
  double shared = 0;  ///< loads and stores of shared memory
  double local = 0;   ///< accesses to private buffers at non-constant indices

  double global() const { return global_loads + global_stores; }
  double total() const {
    return fma + tensor + arithmetic + calls + integer + global() + shared + local;
  }
  void add(const WarpInstructions& other, double times);
};

/// Facts of a section of straight-line code of threads. The statements of a section have the same
/// innermost serial loop, or lie directly in the same nest of thread loops. Numbers are those of
/// one execution by one warp, unless a comment says otherwise.
struct SectionFacts {
  WarpInstructions instructions;
  double executions = 0;  ///< executions by one block
  double warps = 1;       ///< warps that execute the section
  double sectors = 0;     ///< 32-byte sectors, loaded and stored
  double stored_sectors = 0;
  double tma_sectors = 0;    ///< the part of `sectors` that TMA copies, which bypasses L1
  double tma_cycles = 0;     ///< the part of `shared_cycles` in which TMA writes
  double shared_cycles = 0;  ///< cycles of shared memory, bank conflicts included
  double accumulators = 1;   ///< independent sums
  double chain = 0;          ///< updates of one sum, each of which waits for the one before
  double tensor_chain = 0;   ///< updates of one sum by tensor tiles, which wait for each other
  double tensor_fma = 0;     ///< multiply-adds of tensor tiles, in units of the time of one 16-bit
                             ///< multiply-add
  double drains = 0;  ///< number of times that a warpgroup waits until its tensor instructions are
                      ///< done
  double operands = 0;      ///< registers for values in flight
  double partial_sums = 0;  ///< registers of products that are added to the sums outside of tiles
  double trips = 1;         ///< iterations of a thread's own innermost serial loop
  double waits = 0;         ///< number of waits for the first global loads after a barrier
};

/// Facts of a pipeline: a loop in which each iteration starts asynchronous copies to shared memory
/// that a later iteration uses.
struct PipelineFacts {
  double entries = 0;     ///< times that one block enters the loop
  double iterations = 0;  ///< iterations of one block, over all entries
  double ahead = 1;       ///< number of iterations from the start of a copy to its use
  /// Range of the sections inside of the loop: from first_section to last_section - 1.
  size_t first_section = 0, last_section = 0;
};

struct GpuPhaseFacts {
  double blocks = 0;   ///< tasks; each has a block of threads unless the phase is persistent
  double threads = 0;  ///< threads of a block that compute; warps, shared_bytes and barriers are
                       ///< numbers of a block, too
  double warps = 0;    ///< warps of the threads that compute
  /// Threads of the producer warps, which issue the copies of pipelines, so that the other warps do
  /// not meet at a barrier in each iteration. 0: there are no producer warps.
  double producer_threads = 0;
  double registers = 0;  ///< estimated registers of a thread: private buffers, operands, addresses
  double spills = 0;     ///< registers of a thread beyond those that it can have
  double shared_bytes = 0;
  double barriers = 0;
  double resident = 0;   ///< blocks per multiprocessor at once; 0: a block does not fit
  double occupancy = 0;  ///< resident threads / threads that can be resident
  double waves = 0;      ///< number of blocks / blocks that run at once on all multiprocessors
  /// Blocks on the busiest multiprocessor / mean number of blocks on a multiprocessor. For example,
  /// if 4 multiprocessors share 5 blocks, this is 2 / 1.25 = 1.6.
  double tail = 0;
  bool is_persistent = false;  ///< true if a block computes several tasks, one after another
  double pipeline_depth = 0;   ///< iterations that the deepest pipeline keeps in shared memory
  std::vector<SectionFacts> sections;
  std::vector<PipelineFacts> pipelines;
  WarpInstructions instructions;  ///< instructions of the whole phase; the numbers below are of the
                                  ///< whole phase, too
  double useful_lanes = 0;        ///< active lanes / all lanes, of memory instructions, 0 to 1
  /// `sectors` is the number of sectors that accesses touch. `ideal_sectors` is the number that the
  /// same accesses would touch if the different elements that a warp accesses were adjacent.
  double sectors = 0, ideal_sectors = 0;
  double shared_cycles = 0;
  /// `shared_accesses` is the number of accesses of warps to shared memory, by loads, stores and
  /// cp.async. `bank_cycles` is the number of cycles that these accesses take. `shared_cycles` also
  /// includes the copies of TMA and the reads of wgmma, which are no accesses of warps.
  double shared_accesses = 0, bank_cycles = 0;
  double wide_bytes = 0;           ///< mean bytes of one global access of a thread
  double requested_bytes = 0;      ///< bytes of sectors that warps load from L1
  double l2_bytes = 0;             ///< traffic between L1 and L2
  double tma_bytes = 0;            ///< the part of `l2_bytes` that TMA copies to shared memory
  double partial_store_bytes = 0;  ///< the part of `l2_bytes` in sectors that stores write in part
  double dram_bytes = 0;
  double bytes_in_flight = 0;  ///< largest number of bytes that a block requests before it waits
  double unique_bytes = 0;  ///< number of different bytes, i.e. the traffic if no byte is fetched
                            ///< twice

  bool has_producers() const { return producer_threads > 0; }
  /// Returns the number of threads of a block, those of producer warps included.
  double block_threads() const { return threads + producer_threads; }
};

struct GpuFacts {
  std::vector<GpuPhaseFacts> phases;
};

/// Extracts the facts of a program. Fails if the program is not well formed (see extract_facts()).
/// Requires: the target is a GPU.
Result<GpuFacts> extract_gpu_facts(const schedules::Program& program, const Target& target);

}  // namespace tw::cost_model
