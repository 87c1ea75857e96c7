// SPDX-License-Identifier: Apache-2.0
#include "cost_model/analytic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/gpu_analytic.h"

namespace tw::cost_model {
namespace {

// Ports, latencies, bandwidths and the clock come from the machine. The constants below describe
// three other things: the code that the compiler makes of a block, the cost of threads, and
// properties that the description of a machine does not have. The latter were measured on one
// processor and are used for all.

// Operations of a call of a function such as exp: a polynomial of about 20, and the range
// reduction.
constexpr double call_operations = 24;
// Number of port slots that a single lane needs when it is loaded or stored: one for the access,
// and one for the shuffle that moves the element into or out of a vector.
constexpr double lane_accesses = 2;
// Cycles of a branch around a statement. The branch is predicted, but it keeps the statements
// before and after it apart.
constexpr double test_cycles = 0.7;
// Instructions of an iteration of a loop: counter, compare and branch (one instruction to the
// scheduler), and two address increments.
constexpr double loop_instructions = 4;
// Cycles to start a loop. The number is small, because processors predict the exits of loops with
// few iterations. Measured: 0, 1, 2, 4 and 8 cycles give mean rank correlations of 0.8324, 0.8326,
// 0.8319, 0.8306 and 0.824 on the recorded trials of Zen 4.
constexpr double loop_entry_cycles = 1;
// Additional cycles to start a loop whose bounds have to be evaluated (min and max).
constexpr double dynamic_entry_cycles = 8;
// Number of port slots, in addition to the usual one, of an access that straddles two cache lines.
// The access needs a slot for each line, and waits until the halves are joined. With 1, 2 and 3
// additional slots, the mean rank correlation on the recorded trials of Zen 4 is 0.815, 0.825 and
// 0.833.
constexpr double split_turns = 3;
// phase_ns is the time of an empty parallel region with two threads. queued_task_ns is the time to
// take a task from a queue that threads share.
constexpr double phase_ns = 740;
constexpr double queued_task_ns = 28;
// Time to start a task on a thread that knows its tasks beforehand, because it is the only thread
// or has one task: a call through two pointers. 256 tasks that add up a row of 256 numbers took 8.7
// ns each on a Sapphire Rapids, of which the arithmetic took 6.
constexpr double own_task_ns = 3;
// Cycles of a division or a root of 32 bytes of f32. Divisions of 64 bytes took 10 cycles on a
// Sapphire Rapids, roots 12; Zen 3 to 5 divide 32 bytes in 5 to 6.
constexpr double divider_cycles = 5;
// Number of instructions that may wait in the schedulers of a core: 97 in a Skylake, 160 to 200 in
// later cores. While a sum waits for its own last update, this many instructions of other sums can
// begin.
constexpr double waiting_instructions = 160;

// The shares of the times of shorter activities that are added to the time of the longest activity,
// if they run at the same time. port_overlap_loss is the share of a port beside a busier port;
// transfer_overlap_loss is the share of a transfer between caches beside computing. The shares were
// chosen with one half of the workloads of bench/corpus. On the other half, the schedule that the
// model predicts to be fastest has 0.867 of the best speed, and times are off by a factor of 1.34.
constexpr double port_overlap_loss = 0.1, transfer_overlap_loss = 0.25;

// The latency of L3 in cycles; it is 46 on a Zen 3. Loads of lines that no prefetcher has fetched
// wait for this time. For example, on a Zen 3 a product of 1500 x 384 x 1536 took 28 to 37 ms if it
// read 256 bytes of each row at a time, and 19 ms if it read whole rows.
constexpr double l3_latency_cycles = 45;

// Bytes per nanosecond that a core gets from memory at the beginning of a stretch, before
// prefetchers are far ahead. This is the number of bytes that a core can request at once, divided
// by the latency of memory. A Zen 4 gets 9 to 11.
constexpr double begun_bytes_per_ns = 10;

/// Returns the number of sets of sums of a block that are in progress at once, at least 1. If sums
/// end after few iterations, the core begins the next set of sums while it waits for the last
/// updates.
double sums_at_once(const BlockFacts& block) {
  const double instructions = block.instructions.total() * block.sum_iterations;
  return std::max(1.0, waiting_instructions / std::max(1.0, instructions));
}

/// Returns the cycles that a spilled accumulator costs at each update: a store and a load.
double spill_cycles(const Core& core) {
  return 1 / core.stores_per_cycle + 1 / core.loads_per_cycle;
}

/// Returns the number of single elements that a core loads or stores per cycle. A core that loads
/// fewer than two 64-byte registers per cycle accesses registers in halves, but whole elements. For
/// example, a Zen 4 loads one such register per cycle, but two single elements.
double element_accesses_per_cycle(const Core& core) {
  const bool loads_halves = core.vector_bytes > 32 && core.loads_per_cycle < 2;
  return loads_halves ? 2 * core.loads_per_cycle : core.loads_per_cycle;
}

double lane_cycles(const Core& core) { return lane_accesses / element_accesses_per_cycle(core); }

double spill_penalty(const BlockFacts& block, const Core& core) {
  const double excess = std::max(0.0, block.statements - most_scheduled_statements);
  // A long block spills only if it has several accumulators: LLVM then moves loads of operands
  // across their updates.
  const double hoisted = block.accumulators > 1 ? excess : 0;
  return (block.spills * std::max(1.0, block.chain) + block.reloads + hoisted) * spill_cycles(core);
}

/// Returns the cycles to start all loops of a phase, and to count the iterations of loops whose
/// body is not a block. The instructions that count iterations of a block are part of the block's
/// cost.
double loop_cycles(const PhaseFacts& phase, const Core& core) {
  double iterations = phase.serial_iterations;
  for (const BlockFacts& block : phase.blocks) iterations -= block.in_loop ? block.executions : 0;
  return loop_entry_cycles * phase.loop_entries + dynamic_entry_cycles * phase.dynamic_entries +
         loop_instructions / core.instructions_per_cycle * std::max(0.0, iterations);
}

Spent phase_compute_cycles(const PhaseFacts& phase, const Core& core) {
  Spent cycles = spent_on(Resource::Loops, loop_cycles(phase, core));
  for (const BlockFacts& block : phase.blocks)
    cycles.add(block_cost(block, core).spent(), block.executions);
  return cycles;
}

/// Returns the time until the last thread has done its tasks, if a single thread would take `time`
/// for all tasks. For example, 5 tasks of 10 ns on 4 threads take 20 ns.
double parallel(double time, double tasks, double threads) {
  if (tasks <= 0) return 0;
  return time / tasks * std::ceil(tasks / threads);
}

/// Returns the cycles in which one core moves the data that a phase fetches into the cache before
/// `level` (1: from L2 into L1, 2: from L3 into L2); 0 if the machine lacks the cache.
double transfer_cycles(const PhaseFacts& phase, const Machine& machine, size_t level) {
  const double rate = machine.caches[level].bytes_per_cycle;
  return rate > 0 ? phase.traffic[level - 1] / rate : 0;  // 0 if the machine lacks the cache
}

double read_from_memory(const PhaseFacts& phase) { return phase.traffic[2] - phase.written_back; }

/// Returns the share of the bytes fetched by L2 that were in L3. The other bytes come from memory.
double share_from_l3(const PhaseFacts& phase) {
  return phase.traffic[1] > 0 ? std::max(0.0, 1 - read_from_memory(phase) / phase.traffic[1]) : 1;
}

/// Returns the share of the lines fetched by L1 that come from memory. If the share is 1, as in a
/// product of a matrix with a vector, lines arrive evenly while the core computes. If the share is
/// small, as in a product that reads each tile of its weights again and again, lines arrive in
/// bursts, and the core waits.
double streamed_share(const PhaseFacts& phase) {
  return phase.traffic[0] > 0 ? std::min(1.0, read_from_memory(phase) / phase.traffic[0]) : 0;
}

/// Returns the share of the bytes from memory that the kernel prefetches, from 0 to 1. No load
/// waits for these bytes as long as memory can deliver them in time.
double prefetched_share(const PhaseFacts& phase) {
  return phase.traffic[2] > 0 ? std::min(1.0, phase.prefetched / phase.traffic[2]) : 0;
}

/// Returns the cycles until the last thread has all data that a phase fetches from memory. Each
/// thread waits at the beginnings of its own stretches. All threads together get at most the
/// bandwidth of as many cores as saturate memory.
double memory_cycles(const PhaseFacts& phase, const Machine& machine, double threads) {
  const double share = std::clamp(std::min(threads, phase.tasks), 1.0,
                                  std::max(1.0, machine.cores_that_fill_memory));
  const double whole = phase.traffic[2] / machine.memory_bytes_per_cycle;
  const double waited = 1 - prefetched_share(phase);
  const double begun = std::min(phase.begun, phase.traffic[2]) * waited;
  const double latency = phase.begun * waited / begun_bytes_per_ns * machine.core.clock_ghz;
  const double rest = (phase.traffic[2] - begun) / machine.memory_bytes_per_cycle;
  return std::max(whole / share, parallel(latency + rest, phase.tasks, threads));
}

/// Returns the time to start the tasks of a phase. With several threads it includes the time to
/// wake the threads, and to wait at the end until all have finished.
double dispatch_ns(double tasks, double threads) {
  if (std::min(tasks, threads) <= 1) return own_task_ns * tasks;
  if (tasks <= threads) return phase_ns + own_task_ns;
  return phase_ns + parallel(queued_task_ns * tasks, tasks, threads);
}

void add_phase(const PhaseFacts& phase, const Machine& machine, double threads,
               AnalyticCost& cost) {
  const double cycle_ns = 1 / machine.core.clock_ghz;
  const auto ns = [&](double cycles) { return parallel(cycles, phase.tasks, threads) * cycle_ns; };
  Spent compute;
  compute.add(phase_compute_cycles(phase, machine.core), ns(1));
  const double l2 = ns(transfer_cycles(phase, machine, 1));
  const double all_l3 = ns(transfer_cycles(phase, machine, 2) + phase.waits[1] * l3_latency_cycles);
  const double l3 = all_l3 * share_from_l3(phase);
  const double memory = memory_cycles(phase, machine, threads) * cycle_ns;
  const double dispatch = dispatch_ns(phase.tasks, threads);
  cost.compute_ns += compute.total();
  cost.l2_ns += l2;
  cost.l3_ns += l3;
  cost.memory_ns += memory;
  cost.dispatch_ns += dispatch;
  const auto from_caches = [&](double from_l3) {
    return at_once({compute, spent_on(Resource::L2, l2), spent_on(Resource::L3, from_l3)},
                   transfer_overlap_loss);
  };
  const Spent exposed =
      at_once({from_caches(l3), spent_on(Resource::Memory, memory * (1 - prefetched_share(phase)))},
              transfer_overlap_loss * (1 - streamed_share(phase)));
  // Memory takes at least as long as L3 would for the same bytes.
  cost.spent.add(longest({exposed, spent_on(Resource::Memory, memory), from_caches(all_l3)}));
  cost.spent.add(spent_on(Resource::Dispatch, dispatch));
}

AnalyticCost gpu_cost(const GpuFacts& facts, const Machine& machine) {
  AnalyticCost cost;
  for (const GpuPhaseFacts& phase : facts.phases) {
    const GpuPhaseCost phase_cost = gpu_phase_cost(phase, machine);
    cost.compute_ns += phase_cost.compute();
    cost.l2_ns += phase_cost.l2;
    cost.memory_ns += phase_cost.dram;
    cost.dispatch_ns += phase_cost.launch;
    cost.spent.add(phase_cost.spent());
  }
  cost.total_ns = cost.spent.total();
  return cost;
}

std::vector<ResourceTime> gpu_resource_times(const GpuFacts& facts, const Machine& machine) {
  GpuPhaseCost sum;
  for (const GpuPhaseFacts& phase : facts.phases) {
    const GpuPhaseCost cost = gpu_phase_cost(phase, machine);
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

std::vector<ResourceTime> cpu_resource_times(const KernelFacts& facts, const Machine& machine,
                                             int threads) {
  std::map<std::string, double> cycles;
  for (const PhaseFacts& phase : facts.phases) {
    const auto spend = [&](const char* resource, double all) {
      cycles[resource] += parallel(all, phase.tasks, threads);
    };
    for (const BlockFacts& block : phase.blocks) {
      const BlockCost cost = block_cost(block, machine.core);
      spend("multiply-add ports", block.executions * cost.arithmetic);
      spend("divider", block.executions * cost.divider);
      spend("load ports", block.executions * cost.loads);
      spend("store ports", block.executions * cost.stores);
      spend("instruction issue", block.executions * cost.issue);
      spend("latency of sums", block.executions * cost.latency);
      spend("spills", block.executions * cost.spills);
      spend("branches around statements", block.executions * cost.tests);
    }
    spend("loop overhead", loop_cycles(phase, machine.core));
  }
  const AnalyticCost cost = analytic_cost(facts, machine, threads);
  std::vector<ResourceTime> times = {{"L2 to L1", cost.l2_ns},
                                     {"L3 to L2", cost.l3_ns},
                                     {"memory to L3", cost.memory_ns},
                                     {"tasks and barriers", cost.dispatch_ns}};
  for (const auto& [resource, spent] : cycles)
    times.push_back({resource, spent / machine.core.clock_ghz});
  return times;
}

}  // namespace

BlockCost block_cost(const BlockFacts& block, const Core& core) {
  const Instructions& i = block.instructions;
  const double lane_loads = i.strided_loads + i.gather_loads;
  // If executions of a block do not add to the same sums, they overlap out of order, and no update
  // waits.
  const bool waits = block.loop_reduces || block.chain > 1;
  // A spilled sum has to be stored before it can be loaded for the next update.
  const double update =
      core.fma_latency_cycles + (block.spills > 0 ? core.store_forward_cycles : 0);
  BlockCost cost;
  cost.arithmetic =
      (i.fma + i.slow_dots + i.arithmetic + i.calls * call_operations) / core.fma_per_cycle;
  cost.divider = i.divisions * divider_cycles;
  cost.loads =
      (i.vector_loads + i.broadcast_loads + split_turns * i.split_accesses + i.prefetches) /
          core.loads_per_cycle +
      lane_loads * lane_cycles(core);
  cost.stores = i.stores / core.stores_per_cycle + i.scattered_stores * lane_cycles(core);
  cost.issue = (i.total() + (block.in_loop ? loop_instructions : 0)) / core.instructions_per_cycle;
  cost.latency = waits ? block.chain * update / sums_at_once(block) : 0;
  cost.spills = spill_penalty(block, core);
  cost.tests = i.tests * test_cycles;
  return cost;
}

Spent BlockCost::spent() const {
  const Spent ports =
      at_once({spent_on(Resource::Arithmetic, arithmetic), spent_on(Resource::Arithmetic, divider),
               spent_on(Resource::Loads, loads), spent_on(Resource::Stores, stores),
               spent_on(Resource::Issue, issue)},
              port_overlap_loss);
  Spent block = longest({ports, spent_on(Resource::Latency, latency)});
  block.add(spent_on(Resource::Spills, spills));
  block.add(spent_on(Resource::Tests, tests));
  return block;
}

AnalyticCost analytic_cost(const KernelFacts& facts, const Machine& machine, int threads) {
  TW_CHECK(threads >= 1);
  if (facts.gpu) return gpu_cost(*facts.gpu, machine);
  AnalyticCost cost;
  for (const PhaseFacts& phase : facts.phases) add_phase(phase, machine, threads, cost);
  cost.total_ns = cost.spent.total();
  return cost;
}

std::vector<ResourceTime> resource_times(const KernelFacts& facts, const Machine& machine,
                                         int threads) {
  TW_CHECK(threads >= 1);
  std::vector<ResourceTime> times = facts.gpu ? gpu_resource_times(*facts.gpu, machine)
                                              : cpu_resource_times(facts, machine, threads);
  std::stable_sort(times.begin(), times.end(),
                   [](const ResourceTime& a, const ResourceTime& b) { return a.ns > b.ns; });
  return times;
}

Result<double> analytic_cost_ns(const schedules::Program& program, const Target& target,
                                int threads, dsl::CacheState state) {
  if (threads < 1)
    return fail(ErrorCode::Usage,
                fmt::format("[estimate cost] {} threads given; give 1 or more", threads));
  TW_TRY(const KernelFacts facts, extract_facts(program, target, state));
  return analytic_cost(facts, target.machine, threads).total_ns;
}

}  // namespace tw::cost_model
