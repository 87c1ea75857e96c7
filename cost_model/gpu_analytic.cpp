// SPDX-License-Identifier: Apache-2.0
#include "cost_model/gpu_analytic.h"

#include <algorithm>
#include <cmath>

#include "schedules/program/tensor_tiles.h"

namespace tw::cost_model {
namespace {

// call_pipe_cycles are the cycles that a call of exp or a similar function takes on the
// special-function units, which have a quarter as many lanes as integer units. call_instructions
// are the other instructions that a call issues.
constexpr double call_pipe_cycles = 4, call_instructions = 8;
// L1 and shared memory deliver 128 bytes per cycle. L2 delivers 64 bytes per cycle to one
// multiprocessor.
constexpr double l1_sectors_per_cycle = 4, l2_bytes_per_multiprocessor_cycle = 64;
// Number of stores to whole sectors that take L2 as long as one store to a part of a sector.
// Measured on an H100: 51 MB take 60 us by halves of sectors, and 24 us by whole sectors.
constexpr double partial_store_sectors = 2.5;
// Latency of a TMA copy, in addition to the latency of a load, from the request until the waiting
// thread continues (estimated from pipelines of two stages on an H100).
constexpr double tma_latency_cycles = 700;
// Standard deviation of the latency of a copy, as a share of the latency; estimated.
constexpr double latency_spread = 0.125;
// barrier_cycles are the cycles of a barrier after all threads have arrived. block_cycles are the
// cycles of the start and end of a block. A multiprocessor starts one block after the other
// (measured on an H200: an empty kernel of 8,448 blocks takes 5.5 us).
constexpr double barrier_cycles = 25, block_cycles = 150;
// Number of iterations of a thread's own serial loop whose loads are issued at once, because the
// compiler unrolls the loop.
constexpr double iterations_in_flight = 4;
// Accesses for each update of a spilled accumulator: a store and a load.
constexpr double spill_accesses = 2;
// Estimated time that each additional kernel of a graph adds. An empty kernel takes 0.6 us on an
// H200; a kernel that works must also fill and drain the multiprocessors.
constexpr double launch_ns = 1200;
// The share of the time of a unit or a transfer that is added to the time of a busier one, if both
// work at the same time.
constexpr double gpu_overlap_loss = 0.15;
// In a phase with a pipeline, this share of the shorter of two times is added to the longer one:
// the latency of the blocks and the busy time of the units. It only decides between kernels whose
// units are equally busy. The kernel with the deeper pipeline is then expected to be faster.
constexpr double latency_loss = 0.01;

/// Cycles that the units of a multiprocessor are busy with one execution of a section by all warps
/// of a block.
struct Pipes {
  double arithmetic = 0, issue = 0, memory = 0;
  double most() const { return std::max({arithmetic, issue, memory}); }
};

Pipes pipes(const SectionFacts& s, double spills, const Gpu& gpu) {
  const WarpInstructions& i = s.instructions;
  const double spilled = s.chain > 0 ? spill_accesses * spills * s.chain : 0;
  Pipes p;
  p.arithmetic = (i.fma + i.arithmetic) * warp_threads / gpu.fma_lanes +
                 i.integer * warp_threads / gpu.integer_lanes + i.calls * call_pipe_cycles;
  // Tensor cores work in parallel with the other units.
  p.arithmetic = std::max(p.arithmetic, s.tensor_fma / std::max(1.0, gpu.tensor_fma));
  p.issue = (i.total() + i.calls * call_instructions + spilled) / gpu.schedulers;
  p.memory = s.shared_cycles +
             std::max(i.global(), (s.sectors - s.tma_sectors) / l1_sectors_per_cycle) + i.local +
             spilled;
  p.arithmetic *= s.warps;
  p.issue *= s.warps;
  p.memory *= s.warps;
  return p;
}

/// Returns the mean latency of a load from global memory in cycles. The hit rates of L1 and L2
/// follow from the traffic of the phase.
double global_latency(const GpuPhaseFacts& phase, const Gpu& gpu) {
  const double requested = std::max(1.0, phase.requested_bytes);
  return gpu.l1_latency_cycles + gpu.l2_latency_cycles * std::min(1.0, phase.l2_bytes / requested) +
         gpu.dram_latency_cycles * std::min(1.0, phase.dram_bytes / requested);
}

/// Returns the cycles of one execution of a section if its block is alone on a multiprocessor.
double alone(const SectionFacts& s, const Pipes& p, const Gpu& gpu, double memory_latency,
             bool has_producers) {
  // A warp stays with its scheduler, so few warps use only part of the multiprocessor.
  const double parts = std::min(gpu.schedulers * 1.0, s.warps) / gpu.schedulers;
  const double chain =
      std::max(s.chain * gpu.fma_latency_cycles, s.tensor_chain * gpu.tensor_latency_cycles);
  const double ahead = s.trips > 1 ? std::min(s.trips, iterations_in_flight) : 1;
  const double loads = s.waits * memory_latency;
  const double shared = s.instructions.shared > 0 ? gpu.shared_latency_cycles : 0;
  // No thread waits while TMA writes to shared memory. waiting() counts the time until the data has
  // arrived.
  const double written = s.warps * s.tma_cycles;
  const Spent pipes = at_once(
      {spent_on(Resource::Arithmetic, p.arithmetic / parts),
       spent_on(Resource::Issue, p.issue / parts), spent_on(Resource::Loads, p.memory - written)},
      gpu_overlap_loss);
  const double busy = std::max(pipes.total(), chain) + gpu_overlap_loss * written;
  // With producer warps, warpgroups do not meet at barriers, so one warpgroup computes while
  // another waits.
  const bool overlaps = has_producers && s.warps > schedules::warpgroup_warps;
  const double drain = overlaps ? 0 : s.drains * gpu.tensor_latency_cycles;
  return busy + drain + std::max(loads, shared) / ahead;
}

/// Returns the cycles that a block waits in a pipeline if the block is alone on a multiprocessor.
/// It waits for the first copies, and in each iteration if `ahead` iterations take less time than a
/// copy. Latencies vary, so copies that should arrive just in time are sometimes late. `cycles` has
/// the cycles of each section.
double waiting(const PipelineFacts& pipeline, const std::vector<double>& cycles,
               double memory_latency) {
  double busy = 0;
  for (size_t i = pipeline.first_section; i < pipeline.last_section; ++i) busy += cycles[i];
  const double iterations = std::max(1.0, pipeline.iterations);
  const double late = memory_latency / pipeline.ahead - busy / iterations;
  const double left = (late + std::hypot(late, latency_spread * memory_latency)) / 2;
  return pipeline.entries * memory_latency + iterations * left;
}

}  // namespace

Spent GpuPhaseCost::spent_computing() const {
  const Spent pipes = at_once({spent_on(Resource::Arithmetic, arithmetic),
                               spent_on(Resource::Issue, issue), spent_on(Resource::Loads, shared)},
                              gpu_overlap_loss);
  return at_once({pipes, spent_on(Resource::Latency, latency)}, has_pipeline ? latency_loss : 0);
}

Spent GpuPhaseCost::spent() const {
  // L2 and DRAM transfer the same bytes at the same time, so the slower of the two counts.
  const Spent transfers = longest({spent_on(Resource::L2, l2), spent_on(Resource::Memory, dram)});
  Spent phase = at_once({spent_computing(), transfers}, gpu_overlap_loss);
  phase.add(spent_on(Resource::Dispatch, launch));
  return phase;
}

GpuPhaseCost gpu_phase_cost(const GpuPhaseFacts& phase, const Machine& machine) {
  TW_CHECK(machine.gpu);
  const Gpu& gpu = *machine.gpu;
  const double processors = machine.cores, clock = gpu.clock_ghz;
  const double latency = global_latency(phase, gpu);
  Pipes block;
  double path = block_cycles + phase.barriers * barrier_cycles;
  std::vector<double> cycles;  // of each section, if the block is alone
  for (const SectionFacts& s : phase.sections) {
    const Pipes p = pipes(s, phase.spills, gpu);
    block.arithmetic += s.executions * p.arithmetic;
    block.issue += s.executions * p.issue;
    block.memory += s.executions * p.memory;
    cycles.push_back(s.executions * alone(s, p, gpu, latency, phase.has_producers()));
    path += cycles.back();
  }
  const double copied = latency + (phase.tma_bytes > 0 ? tma_latency_cycles : 0);
  for (const PipelineFacts& pipeline : phase.pipelines) path += waiting(pipeline, cycles, copied);
  // A persistent block starts once. Its producers start the copies of a task while the results of
  // the previous task are stored.
  double once = 0;
  if (phase.is_persistent) {
    once = block_cycles;
    for (const PipelineFacts& pipeline : phase.pipelines) once += pipeline.entries * copied;
    path = std::max(0.0, path - once);
  }
  const double blocks = std::ceil(phase.blocks / processors);  // of the busiest multiprocessor
  GpuPhaseCost cost;
  cost.arithmetic = blocks * block.arithmetic / clock;
  cost.issue = blocks * block.issue / clock;
  cost.shared = blocks * block.memory / clock;
  const double resident = std::max(1.0, phase.resident);
  const double started = phase.is_persistent ? std::min(blocks, resident) : blocks;
  cost.latency =
      std::max(once + std::ceil(blocks / resident) * path, started * block_cycles) / clock;
  const double active = std::min(phase.blocks, processors);
  const double reach = std::max(1.0, active * l2_bytes_per_multiprocessor_cycle * clock);
  const double late_bytes = (partial_store_sectors - 1) * phase.partial_store_bytes;
  cost.l2 = (phase.l2_bytes - phase.tma_bytes + late_bytes) / std::min(gpu.l2_gbps, reach) +
            phase.tma_bytes / reach;
  cost.dram = phase.dram_bytes / std::min(gpu.dram_gbps, reach);
  cost.launch = launch_ns;
  cost.has_pipeline = !phase.pipelines.empty();
  return cost;
}

}  // namespace tw::cost_model
