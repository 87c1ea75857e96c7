// SPDX-License-Identifier: Apache-2.0
#include "cost_model/analytic.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/space/space.h"
#include "tests/cost_model/programs.h"

namespace tw::cost_model {
namespace {

using namespace testing;

double cost(const Program& program, const Target& target = avx512(), int threads = 1) {
  const Result<double> ns = analytic_cost_ns(program, target, threads);
  EXPECT_TRUE(ns) << ns.error().message;
  return ns.value_or(0);
}

TEST(Analytic, ATileThatFillsTheRegistersComesNearThePeak) {
  const double peak_ns = 2.0 * 64 * 64 * 9 * 56 * 56 / (64 * 3.5);
  const double good = cost(conv({.pixels = 14, .vectors = 2}));
  EXPECT_LT(good, 1.6 * peak_ns);
  EXPECT_GT(good, peak_ns);
}

/// Returns a convolution that prefetches `lines` cache lines of weights in each task.
Program requesting(int64_t lines) {
  Program program = conv({.pixels = 14, .vectors = 2});
  Block body = *program.phases[0].body;
  if (lines > 0)
    body.insert(body.begin(),
                Stmt{schedules::PrefetchLines{program.arguments[1].buffer.name, 0, lines}});
  program.phases[0].body = block(std::move(body));
  return program;
}

TEST(Analytic, APrefetchTakesALoadPort) {
  const KernelFacts without = extract_facts(requesting(0), avx512()).value();
  const KernelFacts with = extract_facts(requesting(3), avx512()).value();
  const double tasks = with.phases[0].tasks;
  EXPECT_EQ(with.instructions.prefetches, 3 * tasks);
  EXPECT_EQ(with.phases[0].prefetched, 3 * 64 * tasks);
  EXPECT_EQ(with.instructions.loads(), without.instructions.loads());
  EXPECT_EQ(with.instructions.total(), without.instructions.total() + 3 * tasks);
  BlockFacts block;
  block.instructions.prefetches = 5;
  EXPECT_EQ(block_cost(block, avx512().machine.core).loads,
            5 / avx512().machine.core.loads_per_cycle);
}

TEST(Analytic, WhatIsPrefetchedFromMemoryIsNotWaitedFor) {
  const Machine machine = avx512().machine;
  KernelFacts facts = extract_facts(requesting(0), avx512()).value();
  PhaseFacts& phase = facts.phases[0];
  phase.traffic = {1e7, 0, 0};
  const double hot = analytic_cost(facts, machine, 1).total_ns;
  phase.traffic[2] = 1e6;
  const double waiting = analytic_cost(facts, machine, 1).total_ns;
  phase.prefetched = 5e5;
  const double half = analytic_cost(facts, machine, 1).total_ns;
  phase.prefetched = 2e6;
  EXPECT_NEAR(analytic_cost(facts, machine, 1).total_ns, hot, 1e-6 * hot);
  EXPECT_NEAR(half, (hot + waiting) / 2, 1e-6 * hot);
  EXPECT_GT(waiting, hot);
  // No kernel is faster than the transfer of its data from memory.
  phase.traffic[2] = phase.prefetched = 1e9;
  EXPECT_GE(analytic_cost(facts, machine, 1).total_ns, analytic_cost(facts, machine, 1).memory_ns);
}

// Computing hides at least three quarters of the time of memory. If all data that L1 reads come
// from memory, the total is the same as if they came from L3. If one percent of them does, nearly a
// quarter of the time of memory is added.
TEST(Analytic, WhatIsReadOnceFromMemoryIsHiddenBehindComputing) {
  const Machine machine = avx512().machine;
  KernelFacts facts = extract_facts(requesting(0), avx512()).value();
  PhaseFacts& phase = facts.phases[0];
  phase.waits = {};
  const auto total_ns = [&](double into_l1, double into_l2, double from_memory) {
    phase.traffic = {into_l1, into_l2, from_memory};
    return analytic_cost(facts, machine, 1).total_ns;
  };
  const double n = 1e4, computing = total_ns(0, 0, 0);
  const double memory = n / machine.memory_bytes_per_cycle / machine.core.clock_ghz;
  ASSERT_GT(computing, 2 * memory);
  EXPECT_NEAR(total_ns(n, n, n), total_ns(n, n, 0), 1e-3 * memory);
  const double from_memory = total_ns(100 * n, n, n), without = total_ns(100 * n, 0, 0);
  EXPECT_NEAR(from_memory - without, 0.2475 * memory, 1e-3 * memory);
  // All traffic with memory is written bytes here, so that no data that L1 reads come from memory.
  phase.written_back = n;
  EXPECT_NEAR(total_ns(100 * n, 0, n) - without, 0.25 * memory, 1e-3 * memory);
}

TEST(Analytic, WhatComesFromMemoryPassesByL3) {
  const Machine machine = avx512().machine;
  KernelFacts facts;
  facts.phases = {PhaseFacts{}};
  PhaseFacts& phase = facts.phases[0];
  phase.waits[1] = 1000;
  const auto l3_ns = [&](double into_l2, double from_memory) {
    phase.traffic = {into_l2, into_l2, from_memory};
    return analytic_cost(facts, machine, 1).l3_ns;
  };
  const double all = l3_ns(1e6, 0);
  EXPECT_GT(all, 1e6 / machine.caches[2].bytes_per_cycle / machine.core.clock_ghz);
  EXPECT_NEAR(l3_ns(1e6, 4e5), 0.6 * all, 1e-6 * all);
  EXPECT_EQ(l3_ns(1e6, 1e6), 0);
  phase.written_back = 1e6;
  EXPECT_NEAR(l3_ns(1e6, 1e6), all, 1e-6 * all);
}

TEST(Analytic, BeginningsOfStretchesAreReadSlowly) {
  Machine machine = avx512().machine;
  machine.core.clock_ghz = 4;
  machine.memory_bytes_per_cycle = 7.5;  // 30 GB/s
  machine.cores_that_fill_memory = 2;
  KernelFacts facts;
  facts.phases = {PhaseFacts{}};
  PhaseFacts& phase = facts.phases[0];
  phase.tasks = 8;
  phase.traffic = {3e6, 3e6, 3e6};
  const auto memory_us = [&](int threads) {
    return analytic_cost(facts, machine, threads).memory_ns / 1000;
  };
  EXPECT_NEAR(memory_us(1), 100, 1e-6);
  EXPECT_NEAR(memory_us(4), 50, 1e-6);
  phase.begun = 1.5e6;
  EXPECT_NEAR(memory_us(1), 50 + 150, 1e-6);
  EXPECT_NEAR(memory_us(2), 100, 1e-6);  // threads wait at the same time
  EXPECT_NEAR(memory_us(8), 50, 1e-6);   // and no number of them exceeds what memory has
  phase.begun = 6e6;                     // stretches of a line each, which count twice
  EXPECT_NEAR(memory_us(1), 600, 1e-6);
  phase.begun = 1.5e6;
  phase.prefetched = 3e6;  // requests of the kernel itself do not wait
  EXPECT_NEAR(memory_us(1), 100, 1e-6);
  machine.memory_bytes_per_cycle = 2;  // 8 GB/s, which need no prefetcher
  phase.prefetched = 0;
  EXPECT_NEAR(memory_us(1), 375, 1e-6);
}

TEST(Analytic, SmallTilesWaitForTheirSums) {
  const double good = cost(conv({.pixels = 14, .vectors = 2}));
  EXPECT_GT(cost(conv({.pixels = 1, .vectors = 1})), 3 * good);
  EXPECT_GT(cost(conv({.pixels = 4, .vectors = 1})), 1.3 * good);
}

TEST(Analytic, SpillsCostMoreThanTheySave) {
  const double good = cost(conv({.pixels = 14, .vectors = 2}));
  EXPECT_GT(cost(conv({.pixels = 28, .vectors = 2})), 1.5 * good);
  EXPECT_GT(cost(conv({.pixels = 56, .vectors = 2})), cost(conv({.pixels = 28, .vectors = 2})));
  EXPECT_GT(cost(conv({.pixels = 14, .vectors = 2, .vectors_outside = true})), 1.2 * good);
}

TEST(Analytic, LongUnrolledBlocksSpill) {
  const double short_block = cost(conv({.pixels = 14, .vectors = 2, .depth = 4}));
  const double long_block = cost(conv({.pixels = 14, .vectors = 2, .depth = 16}));  // 448 FMAs
  EXPECT_GT(long_block, short_block);
}

TEST(Analytic, FewerLoadsPerFmaAreBetter) {
  // Per step, the tiles have 7, 14 and 28 FMAs for 8, 9 and 11 loads.
  const double one_by_seven = cost(conv({.pixels = 7, .vectors = 1}));
  const double two_by_seven = cost(conv({.pixels = 7, .vectors = 2}));
  const double four_by_seven = cost(conv({.pixels = 7, .vectors = 4}));
  EXPECT_GT(one_by_seven, two_by_seven);
  EXPECT_GT(two_by_seven, 0.96 * four_by_seven);
}

/// Returns the program of a 1x1 convolution with 7x7 results and this tile.
Program pixels_of(int stride, const std::string& tile) {
  const auto workload = dsl::parse_workload(
      stride == 1 ? "conv2d n=1 c=512 h=7 w=7 k=2048 r=1 s=1 stride=1 pad=0 dilation=1 groups=1 "
                    "f32 fast"
                  : "conv2d n=1 c=512 h=14 w=14 k=2048 r=1 s=1 stride=2 pad=0 dilation=1 groups=1 "
                    "f32 fast");
  const auto space = schedules::Space::derive(workload->compute, *parse_target("x86-64-v3"));
  const auto point = space.parse("out: cpu_tile vector=0 " + tile +
                                 " block=128 unroll=1 kblock=0 taps=0 reduction_order=0 "
                                 "outer_order=0 tasks=2 layout.in=1 layout.out=1");
  EXPECT_TRUE(point && space.allowed(*point)) << tile;
  return space.schedule(*point).program().value();
}

// A tile of 7 pixels and one vector has more loads than multiply-adds. Tiles of 6 pixels and two
// vectors or of 4 pixels and three vectors have fewer.
TEST(Analytic, PixelsInTilesOfTheirOwnBeatRowsOfSeven) {
  for (const int stride : {1, 2}) {
    const double row =
        cost(pixels_of(stride, "vectors=1 tile.k=1 tile.y=1 tile.x=7 tile.y*x=0"), avx2());
    for (const char* tile : {"vectors=2 tile.k=1 tile.y=1 tile.x=1 tile.y*x=6",
                             "vectors=3 tile.k=1 tile.y=1 tile.x=1 tile.y*x=4",
                             "vectors=3 tile.k=1 tile.y=1 tile.x=4 tile.y*x=0"})
      EXPECT_LT(cost(pixels_of(stride, tile), avx2()), 0.95 * row) << tile;
  }
}

TEST(Analytic, VectorsBeatScalars) {
  EXPECT_GT(cost(naive_gemm(LoopKind::Serial)), 3 * cost(naive_gemm(LoopKind::Vector)));
}

TEST(Analytic, WiderRegistersHelp) {
  EXPECT_GT(cost(conv({.pixels = 7, .vectors = 1}), avx2()),
            cost(conv({.pixels = 7, .vectors = 1}), avx512()));
}

TEST(Analytic, ThreadsHelpWhereTasksBalance) {
  Program program = conv({});
  const double one = cost(program), two = cost(program, avx512(), 2);
  EXPECT_LT(two, 0.6 * one);
  program.phases[0].axes = {{"k", 1}, {"y", 3}};
  const double three_tasks_on_two = cost(program, avx512(), 2);
  program.phases[0].axes = {{"k", 1}, {"y", 4}};
  EXPECT_GT(three_tasks_on_two, 0.95 * cost(program, avx512(), 2));  // both take two rounds
}

TEST(Analytic, SlowCachesCost) {
  Target small = avx512();
  small.machine.caches[0].bytes = 4 << 10;
  small.machine.caches[1].bytes = 16 << 10;
  EXPECT_GT(cost(naive_gemm(LoopKind::Vector), small), cost(naive_gemm(LoopKind::Vector)));
}

TEST(Analytic, BlocksNeedEightSumsAtOnce) {
  const auto cycles = [](double accumulators) {
    BlockFacts block;
    block.instructions.fma = accumulators;
    block.accumulators = accumulators;
    block.chain = 1;
    block.loop_reduces = true;
    return block_cost(block, avx512().machine.core).cycles() / accumulators;  // an FMA
  };
  EXPECT_NEAR(cycles(1), 4, 0.1);
  EXPECT_NEAR(cycles(4), 1, 0.1);
  EXPECT_LT(cycles(8), 0.62);
  EXPECT_NEAR(cycles(8), cycles(16), 0.05);
}

/// Returns the cycles for one multiply-add in a tile of `pixels` x `vectors` accumulators.
double tile_cycles(double pixels, double vectors, double spills, const Core& core) {
  BlockFacts block;
  block.instructions.fma = block.accumulators = pixels * vectors;
  block.instructions.broadcast_loads = pixels;
  block.instructions.vector_loads = vectors;
  block.chain = 1;
  block.loop_reduces = true;
  block.spills = spills;
  return block_cost(block, core).cycles() / block.accumulators;
}

TEST(Analytic, FewRegistersPreferSmallTiles) {
  Target few = avx512();
  few.machine.core.vector_registers = 16;
  const Program large = conv({.pixels = 14, .vectors = 2}),
                small = conv({.pixels = 4, .vectors = 2});
  EXPECT_LT(cost(large), cost(small));
  EXPECT_GT(cost(large, few), cost(small, few));
}

TEST(Analytic, OneLoadPortPrefersTilesThatLoadLess) {
  Core two = avx512().machine.core;
  two.loads_per_cycle = 2;
  Core one = two;
  one.loads_per_cycle = 1;
  // The tile of 7 x 1 has 8 loads for 7 multiply-adds. The tile of 7 x 2 has 9 for 14, but it
  // spills two sums.
  EXPECT_LT(tile_cycles(7, 1, 0, two), tile_cycles(7, 2, 2, two));
  EXPECT_GT(tile_cycles(7, 1, 0, one), tile_cycles(7, 2, 2, one));
}

TEST(Analytic, ACoreThatLoadsLargeRegistersInHalvesLoadsTwoElements) {
  BlockFacts elements, broadcasts;
  elements.instructions.strided_loads = 8;
  broadcasts.instructions.broadcast_loads = 8;
  Core core = avx512().machine.core;
  core.loads_per_cycle = 1;
  EXPECT_EQ(block_cost(elements, core).loads, 8);  // each takes a load and a shuffle
  EXPECT_EQ(block_cost(broadcasts, core).loads, 8);
  core.vector_bytes = 32;
  EXPECT_EQ(block_cost(elements, core).loads, 16);
}

// The update of a spilled sum waits until the previous update has been stored.
TEST(Analytic, SpilledSumsWaitForTheirStores) {
  Core core = avx2().machine.core;
  const double waits = tile_cycles(7, 2, 1, core);
  EXPECT_GE(14 * waits, core.fma_latency_cycles + core.store_forward_cycles);
  EXPECT_GT(waits, 1.3 * tile_cycles(7, 2, 0, core));
  core.store_forward_cycles = 1;
  EXPECT_LT(tile_cycles(7, 2, 1, core), 0.8 * waits);
}

TEST(Analytic, LongLatencyPrefersMoreSums) {
  Core core = avx512().machine.core;
  EXPECT_LT(tile_cycles(4, 2, 0, core), tile_cycles(10, 1, 0, core));
  core.fma_latency_cycles = 8;
  EXPECT_GT(tile_cycles(4, 2, 0, core), tile_cycles(10, 1, 0, core));
}

TEST(Analytic, ARegisterThatTakesTwoTurnsIsNoFaster) {
  Target zen4 = avx512();
  zen4.machine =
      machine_by_name("Zen 4", {.bytes = 64, .registers = 32, .embedded_broadcast = true}).value();
  Target halves = zen4;
  halves.machine.core =
      machine_by_name("Zen 4", {.bytes = 32, .registers = 32, .embedded_broadcast = true})->core;
  const Program program = conv({.pixels = 4, .vectors = 2});
  EXPECT_NEAR(cost(program, zen4) / cost(program, halves), 1, 0.15);
}

TEST(Analytic, ItsTimeIsTheSumOfWhatResourcesContribute) {
  const auto facts = extract_facts(conv({.pixels = 6, .vectors = 2}), avx2());
  ASSERT_TRUE(facts);
  const AnalyticCost cost = analytic_cost(*facts, avx2().machine, 1);
  EXPECT_NEAR(cost.spent.total(), cost.total_ns, 1e-6 * cost.total_ns);
  EXPECT_GT(cost.spent.overlap, 0);
  EXPECT_LT(cost.spent.overlap, cost.total_ns);
  // If multiply-adds are 1 % slower, the total grows by 1 % of the time that they contribute.
  Machine slow = avx2().machine;
  slow.core.fma_per_cycle /= 1.01;
  const double part = cost.spent.by_resource[static_cast<size_t>(Resource::Arithmetic)];
  EXPECT_GT(part, 0);
  EXPECT_NEAR(analytic_cost(*facts, slow, 1).total_ns, cost.total_ns + 0.01 * part,
              1e-6 * cost.total_ns);
}

// The instructions of the loop are issued while the loads of the body wait for ports, so that the
// loop costs little.
TEST(Analytic, ALoopThatIsShortCostsLittleBesideItsLoads) {
  const auto facts = extract_facts(conv({.pixels = 7, .vectors = 1}), avx2());
  ASSERT_TRUE(facts);
  const Spent spent = analytic_cost(*facts, avx2().machine, 1).spent;
  EXPECT_LT(spent.by_resource[static_cast<size_t>(Resource::Loops)], 0.05 * spent.total());
}

TEST(Analytic, ValuesThatNoRegisterKeepsAreStoredAndLoadedAgain) {
  const Core core = avx512().machine.core;
  BlockFacts kept;
  kept.instructions.fma = kept.accumulators = 28;
  kept.chain = 1;
  BlockFacts reloaded = kept;
  reloaded.reloads = 10;
  EXPECT_NEAR(block_cost(reloaded, core).cycles() - block_cost(kept, core).cycles(),
              10 * (1 / core.stores_per_cycle + 1 / core.loads_per_cycle), 1e-9);
}

TEST(Analytic, ConstantsThatComeFromFartherAwayTakeLonger) {
  Program program = naive_gemm();
  program.arguments[1].constant = true;
  const auto ns = [&](dsl::CacheState state) {
    return analytic_cost_ns(program, avx512(), 1, state).value();
  };
  EXPECT_LT(ns(dsl::CacheState::Hot), ns(dsl::CacheState::NetworkL3));
  EXPECT_LT(ns(dsl::CacheState::NetworkL3), ns(dsl::CacheState::NetworkMemory));
}

TEST(Analytic, AWindowThatSlidesSavesWork) {
  const auto compute = dsl::parse_compute(
      "input image: f32[514, 66]; "
      "rows: f32[y=514, x=64] = image[y, x] + image[y, x + 1] + image[y, x + 2]; "
      "out: f32[y=512, x=64] = rows[y, x] + rows[y + 1, x] + rows[y + 2, x]");
  const auto program_of = [&](const std::string& store) {
    const auto schedule = schedules::parse_schedule(
        *compute, "tw1\nsplit out y 512 as strip y\ncompute_at rows out y\n" + store +
                      "vectorize rows x\nvectorize out x");
    EXPECT_TRUE(schedule) << schedule.error().message;
    return schedule->program().value();
  };
  const Program each = program_of(""), window = program_of("store_at rows out strip\n");
  EXPECT_EQ(extract_facts(each, avx512())->flops, (512 * 3 + 512) * 64 * 2);
  EXPECT_EQ(extract_facts(window, avx512())->flops, (514 + 512) * 64 * 2);
  EXPECT_LT(cost(window), 0.8 * cost(each));
}

// A single thread waits at no barrier, and needs no queue that hands out tasks.
TEST(Analytic, OneThreadHasNeitherBarriersNorAQueue) {
  Program program = naive_gemm(LoopKind::Vector);
  program.phases[0].axes = {{"i", 64}};
  const KernelFacts facts = extract_facts(program, avx512()).value();
  const auto dispatch = [&](int threads) {
    return analytic_cost(facts, avx512().machine, threads).dispatch_ns;
  };
  EXPECT_LT(dispatch(1), 64 * 5);
  EXPECT_GT(dispatch(2), 700);
  EXPECT_GT(dispatch(2), dispatch(64));  // with a task each, no queue is needed
}

/// A schedule and the least latency that some trials of it had.
struct SmallKernel {
  double latency_ns;
  std::string target, workload, schedule;
};

/// Returns the kernels of data/small_kernels.txt. Each begins with a line `measured NS TARGET`. The
/// key of the workload and the schedule follow.
std::vector<SmallKernel> small_kernels() {
  std::ifstream file(TW_SOURCE_DIR "/tests/cost_model/data/small_kernels.txt");
  std::vector<SmallKernel> kernels;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("measured ")) {
      kernels.back().schedule += line + "\n";
      continue;
    }
    std::istringstream words(line.substr(9));
    SmallKernel& kernel = kernels.emplace_back();
    words >> kernel.latency_ns >> kernel.target;
    std::getline(file, kernel.workload);
  }
  return kernels;
}

// The kernels are softmax, normalizations, reductions and functions, with their data in the caches.
// They were measured on one thread of a Sapphire Rapids, with AVX-512 and limited to AVX2.
TEST(Analytic, SmallKernelsOfManyStagesAreToldWithinAFactorOfOneAndAHalf) {
  const std::vector<SmallKernel> kernels = small_kernels();
  ASSERT_GE(kernels.size(), 20u);
  for (const SmallKernel& kernel : kernels) {
    const auto workload = dsl::parse_workload(kernel.workload);
    ASSERT_TRUE(workload) << workload.error().message;
    Target target = parse_target(kernel.target).value();
    const bool is_wide = kernel.target.find("avx512f") != std::string::npos;
    target.machine = machine_by_name("Sapphire Rapids", {.bytes = is_wide ? 64 : 32,
                                                         .registers = is_wide ? 32 : 16,
                                                         .embedded_broadcast = is_wide})
                         .value();
    const auto schedule = schedules::parse_schedule(workload->compute, kernel.schedule);
    ASSERT_TRUE(schedule) << schedule.error().message;
    const double ratio = cost(schedule->program().value(), target) / kernel.latency_ns;
    EXPECT_GT(ratio, 1 / 1.5) << kernel.target << " " << kernel.workload;
    EXPECT_LT(ratio, 1.5) << kernel.target << " " << kernel.workload;
  }
}

TEST(Analytic, DividingTakesTheDivider) {
  const auto cycles = [](double divisions) {
    BlockFacts block;
    block.instructions.arithmetic = 2;
    block.instructions.divisions = divisions;
    return block_cost(block, avx512().machine.core).cycles();
  };
  EXPECT_GT(cycles(1), 5);
  EXPECT_GT(cycles(2), cycles(1) + 4.9);
  const auto divisions = [](const std::string& value, const Target& target) {
    const auto compute = dsl::parse_compute(
        "input a: f32[64, 64]; input b: f32[64]; "
        "out: f32[i=64, j=64] = " +
        value);
    const auto schedule =
        schedules::parse_schedule(*compute, "tw1\nsplit out j 16\nvectorize out j.1\n");
    return extract_facts(schedule->program().value(), target)->instructions.divisions;
  };
  EXPECT_EQ(divisions("a[i, j] / b[j]", avx512()), 64 * 64 * 4 / 32.0);
  EXPECT_EQ(divisions("a[i, j] / b[j]", avx2()), 64 * 64 * 4 / 32.0);
  EXPECT_EQ(divisions("sqrt(a[i, j])", avx512()), 64 * 64 * 4 / 32.0);
  EXPECT_EQ(divisions("a[i, j] / 3.0", avx512()), 0);
  EXPECT_EQ(divisions("a[i, j] * sqrt(b[i])", avx512()), 0);  // once a row
}

// If each row has a sum of its own, the sum of a row does not wait for that of the row before.
TEST(Analytic, ShortSumsOverlap) {
  const auto cycles = [](double iterations) {
    BlockFacts block;
    block.instructions.fma = block.instructions.vector_loads = 1;
    block.chain = block.accumulators = 1;
    block.loop_reduces = true;
    block.sum_iterations = iterations;
    return block_cost(block, avx512().machine.core).cycles();
  };
  EXPECT_EQ(cycles(1000), cycles(INFINITY));
  EXPECT_LT(cycles(8), 0.5 * cycles(1000));
}

TEST(Analytic, NoThreadsIsAnError) { EXPECT_FALSE(analytic_cost_ns(conv({}), avx512(), 0)); }

}  // namespace
}  // namespace tw::cost_model
