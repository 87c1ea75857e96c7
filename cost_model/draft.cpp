// SPDX-License-Identifier: Apache-2.0
#include "cost_model/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/bottleneck.h"
#include "cost_model/gpu_draft.h"

namespace tw::cost_model {
namespace {

// Ports. Server cores start 2 vector FMAs, 2 loads and 1 store a cycle. Zen 4 splits 512-bit
// operations and halves all three, which leaves the order of candidates as it is.
constexpr double fma_per_cycle = 2;
constexpr double loads_per_cycle = 2;
constexpr double stores_per_cycle = 1;
constexpr double instructions_per_cycle = 5;
// An FMA's result is ready after 4 cycles (Intel since Skylake, AMD since Zen 3): with 2 a cycle, 8
// independent accumulators keep the ports busy.
constexpr double fma_latency = 4;
// A polynomial of about 20 operations on two ports, with the range reduction.
constexpr double call_cycles = 12;
// An element that is loaded or stored alone costs its access and a shuffle.
constexpr double lane_access_cycles = 1;
// A branch around a statement: it is predicted, but keeps its neighbours apart.
constexpr double test_cycles = 0.7;
// A spilled accumulator is stored and loaded again at each update.
constexpr double spill_cycles = 1.5;
// LLVM moves loads across a long unrolled block until nearly every value spills: 14 x 2 tiles ran
// at 118 GF/s with 336 unrolled FMAs and at 38 GF/s with 1344 (1373 spill instructions in the
// assembly).
constexpr double unrolled_limit = 400;
constexpr double unrolled_excess_cycles = 1.5;
// Counter, compare, branch, two address increments; and setting a loop up, with its exit
// mispredicted.
constexpr double loop_instructions = 5;
constexpr double loop_entry_cycles = 8;
constexpr double dynamic_entry_cycles = 8;  // evaluating min/max bounds besides
// Bytes a cycle and core, measured streaming on a Xeon at 3.9 GHz: L2 205 GB/s, L3 30, memory 17;
// L3 is shared and faster elsewhere (Zen 4: about 80 GB/s), so 12 stands between.
constexpr double l2_bytes_per_cycle = 48;
constexpr double l3_bytes_per_cycle = 12;
constexpr double memory_bytes_per_cycle = 4.5;
constexpr double threads_that_fill_memory = 4;
constexpr double cycles_per_ns = 3.5;
constexpr double phase_cycles = 2600;  // an empty parallel region with two threads: 0.76 us
constexpr double task_cycles = 100;

double spill_penalty(const BlockFacts& block) {
  const double excess = std::max(0.0, block.statements - unrolled_limit);
  // Without operands to hoist over accumulators a long block is only long.
  const double hoisted = block.accumulators > 1 ? excess * unrolled_excess_cycles : 0;
  return block.spills * std::max(1.0, block.chain) * spill_cycles + hoisted;
}

double loop_cycles(const PhaseFacts& phase) {
  return loop_entry_cycles * phase.loop_entries + dynamic_entry_cycles * phase.dynamic_entries +
         loop_instructions / instructions_per_cycle * phase.serial_iterations;
}

double phase_compute_cycles(const PhaseFacts& phase) {
  double cycles = loop_cycles(phase);
  for (const BlockFacts& block : phase.blocks)
    cycles += block.executions * block_cost(block).cycles();
  return cycles;
}

/// Cycles until the last thread is done, of work that all threads together need `cycles` for.
double parallel(double cycles, double tasks, double threads) {
  if (tasks <= 0) return 0;
  return cycles / tasks * std::ceil(tasks / threads);
}

void add_phase(const PhaseFacts& phase, double threads, DraftCost& cost) {
  const double compute = parallel(phase_compute_cycles(phase), phase.tasks, threads);
  const double l2 = parallel(phase.traffic[0] / l2_bytes_per_cycle, phase.tasks, threads);
  const double l3 = parallel(phase.traffic[1] / l3_bytes_per_cycle, phase.tasks, threads);
  const double sharing = std::clamp(std::min(threads, phase.tasks), 1.0, threads_that_fill_memory);
  const double memory = phase.traffic[2] / memory_bytes_per_cycle / sharing;
  const bool forks = threads > 1 && phase.tasks > 1;
  const double dispatch =
      (forks ? phase_cycles : 0) + parallel(task_cycles * phase.tasks, phase.tasks, threads);
  cost.compute_ns += compute / cycles_per_ns;
  cost.l2_ns += l2 / cycles_per_ns;
  cost.l3_ns += l3 / cycles_per_ns;
  cost.memory_ns += memory / cycles_per_ns;
  cost.dispatch_ns += dispatch / cycles_per_ns;
  cost.total_ns += (bottleneck({compute, l2, l3, memory}) + dispatch) / cycles_per_ns;
}

DraftCost gpu_cost(const GpuFacts& facts) {
  DraftCost cost;
  for (const GpuPhaseFacts& phase : facts.phases) {
    const GpuPhaseCost phase_cost = gpu_phase_cost(phase, facts.architecture);
    cost.compute_ns += phase_cost.compute();
    cost.l2_ns += phase_cost.l2;
    cost.memory_ns += phase_cost.dram;
    cost.dispatch_ns += phase_cost.launch;
    cost.total_ns += phase_cost.total();
  }
  return cost;
}

std::vector<ResourceTime> gpu_resource_times(const GpuFacts& facts) {
  GpuPhaseCost sum;
  for (const GpuPhaseFacts& phase : facts.phases) {
    const GpuPhaseCost cost = gpu_phase_cost(phase, facts.architecture);
    sum.arithmetic += cost.arithmetic;
    sum.issue += cost.issue;
    sum.shared += cost.shared;
    sum.latency += cost.latency;
    sum.l2 += cost.l2;
    sum.dram += cost.dram;
    sum.launch += cost.launch;
  }
  return {{"arithmetic lanes", sum.arithmetic},
          {"instruction issue", sum.issue},
          {"shared memory and L1", sum.shared},
          {"latency of blocks", sum.latency},
          {"L2 to L1", sum.l2},
          {"DRAM to L2", sum.dram},
          {"launches", sum.launch}};
}

std::vector<ResourceTime> cpu_resource_times(const KernelFacts& facts, int threads) {
  std::map<std::string, double> cycles;
  for (const PhaseFacts& phase : facts.phases) {
    const auto spend = [&](const char* resource, double all) {
      cycles[resource] += parallel(all, phase.tasks, threads);
    };
    for (const BlockFacts& block : phase.blocks) {
      const BlockCost cost = block_cost(block);
      spend("multiply-add ports", block.executions * cost.arithmetic);
      spend("load ports", block.executions * cost.loads);
      spend("store ports", block.executions * cost.stores);
      spend("instruction issue", block.executions * cost.issue);
      spend("latency of sums", block.executions * cost.latency);
      spend("spills", block.executions * cost.spills);
      spend("branches around statements", block.executions * cost.tests);
    }
    spend("loop overhead", loop_cycles(phase));
  }
  const DraftCost cost = draft_cost(facts, threads);
  std::vector<ResourceTime> times = {{"L2 to L1", cost.l2_ns},
                                     {"L3 to L2", cost.l3_ns},
                                     {"memory to L3", cost.memory_ns},
                                     {"tasks and barriers", cost.dispatch_ns}};
  for (const auto& [resource, spent] : cycles) times.push_back({resource, spent / cycles_per_ns});
  return times;
}

}  // namespace

BlockCost block_cost(const BlockFacts& block) {
  const Instructions& i = block.instructions;
  const double lane_loads = i.strided_loads + i.gather_loads;
  // Executions of a block that does not continue the same sums overlap out of order.
  const bool waits = block.loop_reduces || block.chain > 1;
  BlockCost cost;
  cost.arithmetic = (i.fma + i.arithmetic) / fma_per_cycle + i.calls * call_cycles;
  cost.loads = (i.vector_loads + i.broadcast_loads + i.split_accesses) / loads_per_cycle +
               lane_loads * lane_access_cycles;
  cost.stores = i.stores / stores_per_cycle + i.scattered_stores * lane_access_cycles;
  cost.issue = i.total() / instructions_per_cycle;
  cost.latency = waits ? block.chain * fma_latency : 0;
  cost.spills = spill_penalty(block);
  cost.tests = i.tests * test_cycles;
  return cost;
}

double BlockCost::cycles() const {
  return std::max(bottleneck({arithmetic, loads, stores, issue}), latency) + spills + tests;
}

DraftCost draft_cost(const KernelFacts& facts, int threads) {
  TW_CHECK(threads >= 1);
  if (facts.gpu) return gpu_cost(*facts.gpu);
  DraftCost cost;
  for (const PhaseFacts& phase : facts.phases) add_phase(phase, threads, cost);
  return cost;
}

std::vector<ResourceTime> resource_times(const KernelFacts& facts, int threads) {
  TW_CHECK(threads >= 1);
  std::vector<ResourceTime> times =
      facts.gpu ? gpu_resource_times(*facts.gpu) : cpu_resource_times(facts, threads);
  std::stable_sort(times.begin(), times.end(),
                   [](const ResourceTime& a, const ResourceTime& b) { return a.ns > b.ns; });
  return times;
}

Result<double> draft_cost_ns(const schedules::Program& program, const Target& target, int threads) {
  if (threads < 1)
    return fail(ErrorCode::Usage,
                fmt::format("[estimate cost] {} threads given; give 1 or more", threads));
  TW_TRY(const KernelFacts facts, extract_facts(program, target));
  return draft_cost(facts, threads).total_ns;
}

}  // namespace tw::cost_model
