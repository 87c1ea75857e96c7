// SPDX-License-Identifier: Apache-2.0
#include "cost_model/gpu_analytic.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/analytic.h"
#include "schedules/space/space.h"
#include "tests/cost_model/gpu_programs.h"

namespace tw::cost_model {
namespace {

using namespace testing;

double gpu_cost(const Program& program, const Target& target = gpu()) {
  const Result<double> ns = analytic_cost_ns(program, target, 1);
  EXPECT_TRUE(ns) << ns.error().message;
  return ns.value_or(0);
}

TEST(GpuAnalytic, TilesInRegistersBeatOneElementAThread) {
  EXPECT_GT(gpu_cost(naive_gpu_gemm(4096)), 5 * gpu_cost(gemm(4096, 4096, 4096)));
}

bool has_tensor_tiles(const Program& program) {
  bool found = false;
  for (const schedules::Phase& phase : program.phases)
    schedules::for_each(*phase.body, [&](const schedules::Stmt& stmt) {
      const auto* loop = stmt.as<schedules::Loop>();
      found |= loop && loop->tile;
    });
  return found;
}

// Without tensor cores, cuBLAS takes 2.8 to 3.1 ms. The multiply-adds alone would take 2.3 ms.
TEST(GpuAnalytic, TheBestSampledGemmIsNearWhatLibrariesReach) {
  const auto workload = dsl::parse_workload(dense(4096, 4096, 4096));
  const schedules::Space space = schedules::Space::derive(workload->compute, gpu());
  Random random(1);
  double best = 1e300;
  for (int i = 0; i < 200; ++i) {
    const auto program = space.schedule(space.sample(random)).program(schedules::limits_of(gpu()));
    if (program && !has_tensor_tiles(*program)) best = std::min(best, gpu_cost(*program));
  }
  for (const double ns : {best, gpu_cost(gemm(4096, 4096, 4096))}) {
    EXPECT_GT(ns, 2.2e6);
    EXPECT_LT(ns, 6e6);
  }
}

TEST(GpuAnalytic, TensorTilesBeatLanes) {
  const double lanes = gpu_cost(gemm(4096, 4096, 4096));
  EXPECT_LT(3 * gpu_cost(first_program("dense m=4096 n=4096 k=4096 bf16 fast")), lanes);
  EXPECT_LT(gpu_cost(first_program(dense(4096, 4096, 4096))), lanes);
}

TEST(GpuAnalytic, WarpgroupsBeatWarps) {
  for (const int64_t size : {2048, 4096, 8192}) {
    const std::string workload = fmt::format("dense m={0} n={0} k={0} bf16 fast", size);
    EXPECT_LT(gpu_cost(first_program(workload)),
              gpu_cost(first_program(workload, gpu("cuda:sm_80"))));
  }
}

// CUTLASS's kernels for such products have producer warps and blocks of 128 by 256 results.
TEST(GpuAnalytic, ProducersAndLargeBlocksSpeedUpLargeProducts) {
  const std::string workload = "dense m=4096 n=4096 k=4096 bf16 fast";
  const auto cost = [&](int columns, int copies, int staged = 0) {
    return gpu_cost(configured(
        workload, fmt::format("product: gpu_wgmma warps.rows=2 warps.columns=1 tiles=4 "
                              "block.rows=128 copy.rows=1 block.columns={} copy.columns=2 stages=4 "
                              "copies={} unroll=4 staged={} raster=1 split=1",
                              columns, copies, staged)));
  };
  const double by_threads = cost(256, 0), by_tma = cost(256, 1), by_producers = cost(256, 2);
  EXPECT_LT(by_tma, by_threads);
  EXPECT_LT(by_producers, by_tma);
  EXPECT_LT(cost(256, 3), by_producers);
  EXPECT_LT(cost(128, 3, 1), cost(128, 3));
  EXPECT_LT(by_producers, 0.9 * cost(128, 2));
}

TEST(GpuAnalytic, CopiesRunAtTheSpeedOfMemory) {
  const double dram = 2.0 * (256 << 20) / gpu().machine.gpu->dram_gbps;
  EXPECT_GT(gpu_cost(copy(64 << 20, 4)), dram);
  EXPECT_LT(gpu_cost(copy(64 << 20, 4)), 1.25 * dram);
  // If each thread copies one element instead of four, there are four times as many blocks, and
  // starting them takes longer than copying. On an H200 such a copy takes 2.5 times as long.
  EXPECT_GT(gpu_cost(copy(64 << 20, 1)), 1.4 * dram);
}

TEST(GpuAnalytic, UncoalescedReadsCost) {
  EXPECT_GT(gpu_cost(transposed_copy(8192)), 2 * gpu_cost(copy(64 << 20, 4)));
}

TEST(GpuAnalytic, BankConflictsCost) {
  const double none = gpu_cost(shared_walk(1));
  EXPECT_GT(gpu_cost(shared_walk(2)), 1.2 * none);
  EXPECT_GT(gpu_cost(shared_walk(8)), 1.5 * gpu_cost(shared_walk(2)));
  EXPECT_NEAR(gpu_cost(shared_walk(33)), none, 0.01 * none);  // padded by a word
}

TEST(GpuAnalytic, CopiesThatAreAheadHideTheirLatency) {
  // A multiprocessor with a single block has nothing else to do while the block waits.
  const auto latency = [](int64_t stages, const Target& target) {
    const auto facts = extract_gpu_facts(gemm(1024, 1024, 4096, {.stages = stages}), target);
    return gpu_phase_cost(facts.value().phases[0], target.machine).latency;
  };
  EXPECT_LT(latency(2, gpu()), 0.9 * latency(1, gpu()));
  EXPECT_LE(gpu_cost(gemm(1024, 1024, 4096, {.stages = 2})), gpu_cost(gemm(1024, 1024, 4096)));
  const Target old = gpu("cuda:sm_75");
  EXPECT_GT(latency(2, old), 0.9 * latency(1, old));
}

TEST(GpuAnalytic, ShortIterationsWantToBeFurtherAhead) {
  const auto latency = [](double ahead, double products) {
    GpuPhaseFacts p;
    p.blocks = p.resident = 1;
    p.requested_bytes = p.l2_bytes = p.dram_bytes = 1 << 20;
    SectionFacts s;
    s.executions = 1000;
    s.warps = 8;
    s.instructions.fma = products;
    p.sections = {s};
    p.pipelines = {{1, 1000, ahead, 0, 1}};
    return gpu_phase_cost(p, gpu().machine).latency;
  };
  EXPECT_GT(latency(1, 8), 1.5 * latency(2, 8));
  EXPECT_GT(latency(2, 8), 1.3 * latency(3, 8));
  EXPECT_NEAR(latency(1, 512), latency(3, 512), 0.01 * latency(3, 512));
}

// Small products leave multiprocessors without blocks. For example, a 3x3 convolution of 64
// channels on 56x56 pixels in tiles of 128x64 has 25 blocks for 132 multiprocessors.
TEST(GpuAnalytic, SmallProductsWantSmallTiles) {
  const double large = gpu_cost(gemm(512, 512, 512, {128, 128, 8, 8, 8}));  // 16 blocks
  const double small = gpu_cost(gemm(512, 512, 512, {64, 32, 8, 4, 4}));    // 128
  EXPECT_GT(large, 1.5 * small);
  EXPECT_LT(gpu_cost(gemm(4096, 4096, 4096, {128, 128, 8, 8, 8})),
            gpu_cost(gemm(4096, 4096, 4096, {64, 32, 8, 4, 4})));
}

TEST(GpuAnalytic, RegistersBeyondTheBudgetSpill) {
  const GemmTile fits{128, 128, 4, 8, 8}, spills{128, 128, 4, 16, 16};
  EXPECT_GT(gpu_cost(gemm(4096, 4096, 4096, spills)), 1.5 * gpu_cost(gemm(4096, 4096, 4096, fits)));
}

TEST(GpuAnalytic, EachPhaseIsALaunch) {
  Program one = copy(1024), two = one;
  two.phases.push_back(one.phases[0]);
  EXPECT_GT(gpu_cost(two), gpu_cost(one) + 1000);
}

TEST(GpuAnalytic, AWaveThatIsNotFullCostsAWholeOne) {
  const auto phase = [](double blocks) {
    GpuPhaseFacts p;
    p.blocks = blocks;
    p.resident = 1;
    SectionFacts s;
    s.executions = 1000;
    s.warps = 8;
    s.instructions.fma = 64;
    p.sections = {s};
    return gpu_phase_cost(p, gpu().machine).total();
  };
  EXPECT_NEAR(phase(133), phase(264), 1);
  EXPECT_GT(phase(133), 1.8 * phase(132));
}

TEST(GpuAnalytic, TheTimesOfResourcesAreTheTotalsParts) {
  const auto facts = extract_facts(gemm(4096, 4096, 4096), gpu());
  ASSERT_TRUE(facts);
  const auto times = resource_times(*facts, gpu().machine, 1);
  ASSERT_FALSE(times.empty());
  const AnalyticCost cost = analytic_cost(*facts, gpu().machine, 1);
  const double total = cost.total_ns;
  EXPECT_NEAR(cost.spent.total(), total, 1e-6 * total);
  EXPECT_LE(times.front().ns, total);
  EXPECT_GT(times.front().ns, 0.5 * total);
  EXPECT_EQ(times.back().resource, "launches");
}

TEST(GpuAnalytic, EveryTargetHasAnAnswer) {
  for (const char* name : {"cuda:sm_75", "cuda:sm_80", "cuda:sm_89", "cuda:sm_120a", "opencl"}) {
    const double ns = gpu_cost(copy(64 << 20), gpu(name));
    EXPECT_GT(ns, gpu_cost(copy(1 << 20), gpu(name))) << name;
    EXPECT_NE(ns, gpu_cost(copy(64 << 20))) << name;
  }
}

}  // namespace
}  // namespace tw::cost_model
