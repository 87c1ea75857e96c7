// SPDX-License-Identifier: Apache-2.0
#include "cost_model/gpu_draft.h"

#include <algorithm>
#include <cmath>

#include "cost_model/bottleneck.h"

namespace tw::cost_model {
namespace {

// A multiprocessor has four parts that start an instruction of a warp a cycle each.
constexpr double schedulers = 4;
// Integers have half of the lanes that f32 has; exp and its like a quarter of the integers' lanes,
// and some multiply-adds around.
constexpr double integer_lanes = 64;
constexpr double call_pipe_cycles = 4, call_instructions = 8;
// L1 and shared memory hand out 128 bytes a cycle; one multiprocessor takes 64 from L2.
constexpr double l1_sectors_per_cycle = 4, l2_bytes_per_multiprocessor_cycle = 64;
// Cycles from Ampere and Hopper under micro-benchmarks (arXiv 2402.13499, 2208.11174): a
// multiply-add 4, a tensor tile 33, shared memory 25 to 30, L1 35, L2 about 260, DRAM about 600.
constexpr double fma_result_latency = 4, tensor_latency = 33, shared_latency = 28, l1_latency = 35;
constexpr double l2_latency = 225, dram_latency = 350;  // more than the one before
// A barrier after all have arrived; a block's start and end.
constexpr double barrier_cycles = 25, block_cycles = 150;
// The compiler unrolls a thread's own serial loop and asks for the loads of four turns at once.
constexpr double turns_in_flight = 4;
// A value that no register holds is stored and loaded again for each sum.
constexpr double spill_accesses = 2;
// One kernel after another on a stream: 2 to 3 us, most of it the start and the drain.
constexpr double launch_ns = 2200;

/// Cycles of a multiprocessor for one execution of a section by all warps of a block.
struct Pipes {
  double arithmetic = 0, issue = 0, memory = 0;
  double most() const { return std::max({arithmetic, issue, memory}); }
};

Pipes pipes(const SectionFacts& s, double spills, const GpuArchitecture& gpu) {
  const WarpInstructions& i = s.instructions;
  const double spilled = s.chain > 0 ? spill_accesses * spills * s.chain : 0;
  Pipes p;
  p.arithmetic = (i.fma + i.arithmetic) * warp_lanes / gpu.fma_lanes +
                 i.integer * warp_lanes / integer_lanes + i.calls * call_pipe_cycles;
  // Beside the lanes.
  p.arithmetic = std::max(p.arithmetic, s.tensor_fma / std::max(1.0, gpu.tensor_fma));
  p.issue = (i.total() + i.calls * call_instructions + spilled) / schedulers;
  p.memory =
      s.shared_cycles + std::max(i.global(), s.sectors / l1_sectors_per_cycle) + i.local + spilled;
  p.arithmetic *= s.warps;
  p.issue *= s.warps;
  p.memory *= s.warps;
  return p;
}

/// Cycles from asking global memory to the answer, on average over what L1 and L2 know.
double global_latency(const GpuPhaseFacts& phase) {
  const double requested = std::max(1.0, phase.requested_bytes);
  return l1_latency + l2_latency * std::min(1.0, phase.l2_bytes / requested) +
         dram_latency * std::min(1.0, phase.dram_bytes / requested);
}

/// Cycles of one execution of a section when its block is alone.
double alone(const SectionFacts& s, const Pipes& p, double memory_latency) {
  // Warps stay in the part of the multiprocessor that they began in.
  const double parts = std::min(schedulers, s.warps) / schedulers;
  const double chain = std::max(s.chain * fma_result_latency, s.tensor_chain * tensor_latency);
  const double ahead = s.trips > 1 ? std::min(s.trips, turns_in_flight) : 1;
  const double loads = s.waits * memory_latency;
  const double shared = s.instructions.shared > 0 ? shared_latency : 0;
  const double busy = std::max({p.arithmetic / parts, p.issue / parts, p.memory, chain});
  return busy + std::max(loads, shared) / ahead;
}

/// Cycles that a block that is alone waits in a pipeline: for its first copies, and then wherever
/// the iterations that they are ahead take less than the latency.
double waiting(const PipelineFacts& pipeline, const std::vector<double>& cycles,
               double memory_latency) {
  double busy = 0;
  for (size_t i = pipeline.first_section; i < pipeline.last_section; ++i) busy += cycles[i];
  const double iterations = std::max(1.0, pipeline.iterations);
  const double left = std::max(0.0, memory_latency / pipeline.ahead - busy / iterations);
  return pipeline.entries * memory_latency + iterations * left;
}

}  // namespace

double GpuPhaseCost::compute() const {
  return std::max(bottleneck({arithmetic, issue, shared}), latency);
}

// The same bytes are on their way through L2 and DRAM at once.
double GpuPhaseCost::total() const { return bottleneck({compute(), std::max(l2, dram)}) + launch; }

GpuPhaseCost gpu_phase_cost(const GpuPhaseFacts& phase, const GpuArchitecture& gpu) {
  const double processors = gpu.multiprocessors, clock = gpu.clock_ghz;
  const double latency = global_latency(phase);
  Pipes block;
  double path = block_cycles + phase.barriers * barrier_cycles;
  std::vector<double> cycles;  // of each section, when the block is alone
  for (const SectionFacts& s : phase.sections) {
    const Pipes p = pipes(s, phase.spills, gpu);
    block.arithmetic += s.executions * p.arithmetic;
    block.issue += s.executions * p.issue;
    block.memory += s.executions * p.memory;
    cycles.push_back(s.executions * alone(s, p, latency));
    path += cycles.back();
  }
  for (const PipelineFacts& pipeline : phase.pipelines) path += waiting(pipeline, cycles, latency);
  const double blocks = std::ceil(phase.blocks / processors);  // of the busiest multiprocessor
  GpuPhaseCost cost;
  cost.arithmetic = blocks * block.arithmetic / clock;
  cost.issue = blocks * block.issue / clock;
  cost.shared = blocks * block.memory / clock;
  cost.latency = std::ceil(blocks / std::max(1.0, phase.resident)) * path / clock;
  const double active = std::min(phase.blocks, processors);
  const double reach = std::max(1.0, active * l2_bytes_per_multiprocessor_cycle * clock);
  cost.l2 = phase.l2_bytes / std::min(gpu.l2_bytes_per_ns, reach);
  cost.dram = phase.dram_bytes / std::min(gpu.dram_bytes_per_ns, reach);
  cost.launch = launch_ns;
  return cost;
}

}  // namespace tw::cost_model
