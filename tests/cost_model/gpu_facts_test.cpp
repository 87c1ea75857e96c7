// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/gpu_facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/facts/warp_accesses.h"
#include "dsl/parse.h"
#include "tests/cost_model/gpu_programs.h"

namespace tw::cost_model {
namespace {

using namespace testing;

GpuPhaseFacts phase_of(const Program& program, const Target& target = gpu()) {
  const Result<GpuFacts> facts = extract_gpu_facts(program, target);
  EXPECT_TRUE(facts) << facts.error().message;
  return facts ? facts->phases.at(0) : GpuPhaseFacts{};
}

facts::WarpPoint all_lanes() {
  facts::WarpPoint point;
  point.active.fill(true);
  return point;
}
facts::LaneValues every(int64_t bytes) {
  facts::LaneValues lanes;
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = static_cast<int64_t>(i) * bytes;
  return lanes;
}

TEST(LaneValues, SectorsOfAWarp) {
  EXPECT_EQ(sectors(every(4), 4, all_lanes()), 4);
  EXPECT_EQ(sectors(every(16), 16, all_lanes()), 16);
  EXPECT_EQ(sectors(every(64), 4, all_lanes()), 32);
  EXPECT_EQ(sectors(every(0), 4, all_lanes()), 1);
  facts::LaneValues shifted = every(4);
  for (int64_t& address : shifted) address += 4;
  EXPECT_EQ(sectors(shifted, 4, all_lanes()), 5);
}

TEST(LaneValues, CyclesOfBanks) {
  EXPECT_EQ(bank_cycles(every(4), 4, all_lanes()), 1);
  EXPECT_EQ(bank_cycles(every(0), 4, all_lanes()), 1);  // one word for all
  EXPECT_EQ(bank_cycles(every(8), 4, all_lanes()), 2);
  EXPECT_EQ(bank_cycles(every(128), 4, all_lanes()), 32);
  EXPECT_EQ(bank_cycles(every(132), 4, all_lanes()), 1);
  EXPECT_EQ(bank_cycles(every(16), 16, all_lanes()), 4);
}

TEST(GpuFacts, Tile) {
  const GpuPhaseFacts p = phase_of(gemm(4096, 4096, 4096));
  EXPECT_EQ(p.blocks, 1024);
  EXPECT_EQ(p.threads, 256);
  EXPECT_EQ(p.warps, 8);
  EXPECT_EQ(p.shared_bytes, 2 * 128 * 8 * 4);
  EXPECT_EQ(p.instructions.fma, 4096.0 * 4096 * 4096 / 32);
  EXPECT_GT(p.registers, 64 + 16);
  EXPECT_LT(p.registers, 128);
  EXPECT_EQ(p.spills, 0);
  EXPECT_EQ(p.resident, 2);  // 65536 / (256 * about 110)
  EXPECT_DOUBLE_EQ(p.occupancy, 0.25);
  EXPECT_EQ(p.unique_bytes, 3 * 4096.0 * 4096 * 4);
  EXPECT_EQ(p.useful_lanes, 1);
  // Each block fetches its rows and columns once, so that both factors are read 4096 / 128 times.
  EXPECT_NEAR(p.l2_bytes, 4096.0 * 4096 * 4 * (32 + 32 + 1), 1e6);
  EXPECT_GT(p.dram_bytes, p.unique_bytes);
}

TEST(GpuFacts, TensorTiles) {
  const double products = 1024.0 * 1024 * 1024;
  const Target sm_80 = gpu("cuda:sm_80");
  const GpuPhaseFacts p =
      phase_of(first_program("dense m=1024 n=1024 k=1024 bf16 fast", sm_80), sm_80);
  EXPECT_EQ(p.instructions.tensor, products / (16 * 8 * 16));
  EXPECT_EQ(p.instructions.fma, 0);
  EXPECT_EQ(p.spills, 0);
  const GpuPhaseFacts three = phase_of(first_program("dense m=1024 n=1024 k=1024 f32 fast"));
  EXPECT_EQ(three.instructions.tensor, 3 * products / (16 * 8 * 8));
  EXPECT_GT(three.instructions.arithmetic, p.instructions.arithmetic);
  // Each load is of two elements, and four instructions split an element. Besides, the four sums of
  // a lane are added outside of the tensor cores.
  const auto tensor_section =
      std::ranges::max_element(three.sections, {}, &SectionFacts::tensor_fma);
  const WarpInstructions& of_tiles = tensor_section->instructions;
  EXPECT_EQ(of_tiles.arithmetic, 2 * 4 * of_tiles.shared + 4 * of_tiles.tensor / 3);
  // Until they are added, the products of an unrolled tile have registers of their own.
  EXPECT_EQ(tensor_section->partial_sums, 4 * of_tiles.tensor / 3);
  for (const SectionFacts& section : p.sections) EXPECT_EQ(section.partial_sums, 0);
  // A lane loads 8 neighbouring bytes of a factor, so that a warp uses each bank twice.
  for (const GpuPhaseFacts& facts : {p, three}) {
    const auto section =
        std::max_element(facts.sections.begin(), facts.sections.end(),
                         [](const auto& a, const auto& b) { return a.tensor_fma < b.tensor_fma; });
    EXPECT_EQ(section->shared_cycles, 2 * section->instructions.shared);
    EXPECT_GT(section->tensor_chain, 0);
  }
}

/// Returns the facts of a kernel in which a warp computes a tile of 64 x `columns` by split tf32,
/// with `depth` terms unrolled.
GpuPhaseFacts split_tile(int columns, int depth) {
  const Target sm_80 = gpu("cuda:sm_80");
  const std::string configuration = fmt::format(
      "out: gpu_mma warps.rows=1 warps.columns=1 tiles={} block.rows=64 copy.rows=1 "
      "block.columns={} copy.columns=2 stages=3 unroll=4 raster=1 split=1",
      depth / 8, columns);
  return phase_of(testing::configured("dense m=4096 n=4096 k=4096 f32 fast", configuration, sm_80),
                  sm_80);
}

TEST(GpuFacts, PartialSumsTakeTheRegistersThatAreFree) {
  const GpuPhaseFacts little = split_tile(32, 8), more = split_tile(32, 16);
  EXPECT_EQ(more.registers - little.registers, 64 * 32 / 32);
  EXPECT_EQ(more.spills, 0);
  // The sums of a thread take half of its registers. With 16 terms instead of 8, twice as many
  // operands and partial sums are live, and ptxas of NVRTC 13.0 spills 9 to 30 registers.
  const GpuPhaseFacts all = split_tile(64, 8), twice = split_tile(64, 16);
  EXPECT_GT(all.spills, 0);
  EXPECT_LE(all.registers, 255 + 16);
  EXPECT_GE(twice.spills, 9);
  EXPECT_LE(twice.spills, 30);
}

TEST(GpuFacts, LaunchBoundsLimitTheRegisters) {
  const auto with = [](int resident) {
    return phase_of(testing::configured(
        "dense m=4096 n=4096 k=4096 f32 fast",
        fmt::format("out: gpu_mma warps.rows=2 warps.columns=4 tiles=4 block.rows=128 copy.rows=1 "
                    "block.columns=64 copy.columns=2 stages=2 copies=0 unroll=4 raster=1 split=1 "
                    "resident={}",
                    resident)));
  };
  const GpuPhaseFacts one = with(1), two = with(2);
  EXPECT_EQ(one.resident, 1);
  EXPECT_EQ(one.spills, 0);
  EXPECT_EQ(two.resident, 2);
  EXPECT_GT(two.spills, 0);  // 65,536 registers are 128 for each of 512 threads
}

TEST(GpuFacts, TilesOfWarpgroups) {
  const std::string workload = "dense m=1024 n=1024 k=1024 bf16 fast";
  const GpuPhaseFacts p = phase_of(first_program(workload));
  const GpuPhaseFacts q = phase_of(first_program(workload, gpu("cuda:sm_80")));
  const auto tensor_section = [](const GpuPhaseFacts& facts) {
    return *std::ranges::max_element(facts.sections, {}, &SectionFacts::tensor_fma);
  };
  const auto fma = [&](const GpuPhaseFacts& facts) {
    const SectionFacts s = tensor_section(facts);
    return facts.blocks * s.executions * s.warps * s.tensor_fma;
  };
  // The tiles of warpgroups are 1.6 times as fast, so that they count as fewer multiply-adds. Lanes
  // load no factors for them.
  EXPECT_NEAR(fma(q), 1024.0 * 1024 * 1024, 1);
  EXPECT_NEAR(fma(p), fma(q) / 1.6, 1);
  EXPECT_EQ(tensor_section(p).instructions.shared, 0);
  EXPECT_GT(tensor_section(p).shared_cycles, 0);
  EXPECT_LE(p.instructions.tensor, q.instructions.tensor / 8);
  EXPECT_EQ(p.spills, 0);
}

TEST(GpuFacts, Pipelines) {
  const GpuPhaseFacts plain = phase_of(gemm(4096, 4096, 4096));
  EXPECT_EQ(plain.pipeline_depth, 1);
  EXPECT_TRUE(plain.pipelines.empty());
  const Program program = gemm(4096, 4096, 4096, {.stages = 3});
  const GpuPhaseFacts p = phase_of(program);
  EXPECT_EQ(p.pipeline_depth, 3);
  EXPECT_EQ(p.shared_bytes, 3 * plain.shared_bytes);
  EXPECT_LE(p.registers, plain.registers);
  EXPECT_LT(p.instructions.shared, plain.instructions.shared);
  EXPECT_NEAR(p.l2_bytes, plain.l2_bytes, 0.01 * plain.l2_bytes);
  ASSERT_EQ(p.pipelines.size(), 1);
  EXPECT_EQ(p.pipelines[0].entries, 1);
  EXPECT_EQ(p.pipelines[0].iterations, 512);
  EXPECT_EQ(p.pipelines[0].ahead, 2);
  // sm_75 has no asynchronous copies. The program is legal there, and waits as if it had no
  // pipeline.
  EXPECT_TRUE(phase_of(program, gpu("cuda:sm_75")).pipelines.empty());
}

TEST(GpuFacts, BulkCopiesBringTheSameBytesForFewerInstructions) {
  const auto with = [](const std::string& copies) {
    return phase_of(scheduled("dense m=1024 n=1024 k=1024 f32 fast", R"(split out m 16
split out n 64
split out k 16
reorder out m.0 n.0 k.0 m.1 n.1 k.1
cache_write out n.0
cache_operand out 1 k.0 m.1 k.1
cache_operand out 2 k.0 k.1 n.1
parallel out m.0
parallel out n.0
bind out m.1
bind out n.1
pipeline a@out 3
pipeline b@out 3
)" + copies));
  };
  const GpuPhaseFacts threads = with(R"(fuse a@out m.1 k.1
bind a@out m.1*k.1
fuse b@out k.1 n.1
bind b@out k.1*n.1)");
  const GpuPhaseFacts boxes = with("bulk a@out\nbulk b@out");
  EXPECT_EQ(boxes.pipelines.size(), 1);
  EXPECT_NEAR(boxes.l2_bytes, threads.l2_bytes, 0.01 * threads.l2_bytes);
  EXPECT_NEAR(boxes.dram_bytes, threads.dram_bytes, 0.01 * threads.dram_bytes);
  EXPECT_NEAR(boxes.sectors, threads.sectors, 0.01 * threads.sectors);
  EXPECT_EQ(boxes.instructions.global_loads, 0);
  EXPECT_GT(threads.instructions.global_loads, 0);
  EXPECT_LT(boxes.instructions.integer, threads.instructions.integer);
  EXPECT_LE(boxes.registers, threads.registers);
}

TEST(GpuFacts, ConsumersMeetAtNoBarrierOfThePipeline) {
  const auto with = [](int copies) {
    return phase_of(configured(
        "dense m=512 n=512 k=1024 bf16 fast",
        fmt::format("product: gpu_wgmma warps.rows=2 warps.columns=1 tiles=4 block.rows=128 "
                    "copy.rows=1 block.columns=128 copy.columns=2 stages=3 copies={} unroll=4 "
                    "staged=0 raster=1 split=1",
                    copies)));
  };
  const GpuPhaseFacts alone = with(1), helped = with(2);
  EXPECT_EQ(alone.block_threads(), 256);
  EXPECT_EQ(helped.producer_threads, 128);
  EXPECT_EQ(helped.block_threads(), 384);
  EXPECT_EQ(alone.barriers - helped.barriers, 1024 / 64);
  EXPECT_NEAR(alone.l2_bytes, helped.l2_bytes, 0.01 * helped.l2_bytes);
  // TMA writes to shared memory, and wgmma reads from it, which takes cycles. But no warp accesses
  // it by loads and stores.
  EXPECT_GT(helped.shared_cycles, 0);
  EXPECT_EQ(helped.shared_accesses, 0);
}

/// Returns the cycles of shared memory of one execution of the section that needs most of them.
double copy_cycles(const GpuPhaseFacts& facts) {
  return std::ranges::max_element(facts.sections, {}, &SectionFacts::shared_cycles)->shared_cycles;
}

// A row of a box takes as many cycles as a row of 128 bytes, even if it has only 8 elements of f32.
TEST(GpuFacts, ShortRowsOfBoxesCostWholeLines) {
  const auto with = [](int64_t terms) {
    return copy_cycles(
        phase_of(scheduled("dense m=1024 n=1024 k=1024 f32 fast", fmt::format(R"(split out m 64
split out n 4
split out k {}
reorder out m.0 n.0 k.0 m.1 n.1 k.1
cache_write out n.0
cache_operand out 1 k.0 m.1 k.1
cache_operand out 2 k.0 k.1 n.1
parallel out m.0
parallel out n.0
bind out m.1
bind out n.1
pipeline a@out 2
bulk a@out
pipeline b@out 2
bulk b@out
)",
                                                                              terms))));
  };
  EXPECT_NEAR(with(32), 64 + 32, 1);  // rows of 128 bytes, and 32 of 16
  EXPECT_NEAR(with(8), 64 + 8, 1);
}

TEST(GpuFacts, NarrowAsynchronousCopiesTakeTwoAccesses) {
  const auto with = [](int copy) {
    return phase_of(configured(
        "dense m=512 n=512 k=512 f32 fast",
        fmt::format("out: gpu_mma warps.rows=2 warps.columns=2 tiles=2 block.rows=64 copy.rows={} "
                    "block.columns=64 copy.columns=2 stages=3 unroll=1 raster=1 split=1",
                    copy),
        gpu("cuda:sm_80")));
  };
  const GpuPhaseFacts narrow = with(0), wide = with(1);
  const double elements = 512.0 / 64 * 512 * 512;  // each block of columns reads all of a
  EXPECT_NEAR(narrow.instructions.global_loads - wide.instructions.global_loads,
              elements / 32 * 3 / 4, 1);
  EXPECT_NEAR(narrow.instructions.shared - wide.instructions.shared, elements / 32, 1);
}

TEST(GpuFacts, PaddingAvoidsConflicts) {
  const GpuPhaseFacts plain = phase_of(gemm(4096, 4096, 4096));
  const GpuPhaseFacts padded = phase_of(gemm(4096, 4096, 4096, {.padding = 4}));
  EXPECT_LT(padded.shared_cycles, 0.9 * plain.shared_cycles);
}

TEST(GpuFacts, SwizzlesAvoidConflicts) {
  // A row has 128 bytes, of which a warp reads 32.
  const auto compute = dsl::parse_compute(
      "input a: bf16[64, 128]\nweight b: bf16[128, 64]\n"
      "out: f32[m=64, n=64] = sum(k=128) "
      "f32(a[m, k]) * f32(b[k, n])");
  const std::string steps = R"(tw1
split out m 16
split out m.1 8
split out n 8
split out n.1 2
split out k 64
split out k.1 16
reorder out m.0 n.0 k.0 m.1.1 n.1.0 k.1.0 m.1.0 n.1.1 k.1.1
cache_write out n.0
cache_operand out 1 k.0 m.1.0 m.1.1 k.1.0 k.1.1
cache_operand out 2 k.0 n.1.0 n.1.1 k.1.0 k.1.1
parallel out m.0
parallel out n.0
bind out m.1.1
bind out n.1.0
tensorize out m.1.0 mma_m16n8k16_bf16
bind a@out m.1.1
bind b@out k.1.1
)";
  const auto cycles = [&](const std::string& more) {
    const auto schedule = schedules::parse_schedule(*compute, steps + more);
    const GpuPhaseFacts p = phase_of(schedule->program().value());
    const auto section = std::ranges::max_element(p.sections, {}, &SectionFacts::tensor_fma);
    return section->shared_cycles / section->instructions.shared;
  };
  EXPECT_EQ(cycles(""), 8);
  EXPECT_EQ(cycles("swizzle a@out 128\nswizzle b@out 128\n"), 2);
}

TEST(GpuFacts, Copies) {
  const GpuPhaseFacts p = phase_of(copy(64 << 20)), wide = phase_of(copy(64 << 20, 4));
  EXPECT_EQ(p.instructions.global(), 2.0 * (64 << 20) / 32);
  EXPECT_EQ(wide.instructions.global(), 2.0 * (64 << 20) / 32 / 4);
  EXPECT_EQ(p.wide_bytes, 4);
  EXPECT_EQ(wide.wide_bytes, 16);
  for (const GpuPhaseFacts& facts : {p, wide}) {
    EXPECT_EQ(facts.sectors, 2.0 * (64 << 20) * 4 / 32);
    EXPECT_EQ(facts.sectors, facts.ideal_sectors);
    EXPECT_EQ(facts.dram_bytes, 2.0 * (256 << 20));
    EXPECT_EQ(facts.occupancy, 1);
  }
}

// The lanes of a warp need one sector of a row if they all read the same element.
TEST(GpuFacts, AnElementThatAllLanesReadIsNeededOnce) {
  const GpuPhaseFacts p = phase_of(scheduled(
      "input a: f32[64, 8]; out: f32[i=64, j=32] = a[i, 0] * 2.0", "parallel out i\nbind out j\n"));
  EXPECT_EQ(p.sectors, 64 * (1 + 4));
  EXPECT_EQ(p.sectors, p.ideal_sectors);
}

// The threads of a warp share the terms of an f32 sum. A sum of i64 cannot be combined by shuffles,
// so one thread computes it.
TEST(GpuFacts, OneThreadSumsWhatNoWarpCanShuffle) {
  const auto loads = [](const char* type, const char* target) {
    return phase_of(
               scheduled(fmt::format("input a: {0}[6400]; out: {0}[] = sum(k=6400) a[k]", type),
                         "bind out k\n", gpu(target)),
               gpu(target))
        .instructions.global_loads;
  };
  EXPECT_LT(loads("f32", "cuda:sm_90a"), 640);
  EXPECT_GE(loads("i64", "cuda:sm_90a"), 6400);
  EXPECT_GE(loads("f32", "opencl"), 6400);
}

TEST(GpuFacts, WhatFitsIntoL2StaysThere) { EXPECT_EQ(phase_of(copy(1 << 20)).dram_bytes, 0); }

TEST(GpuFacts, ColumnsTouchASectorALane) {
  const GpuPhaseFacts p = phase_of(transposed_copy(8192));
  EXPECT_EQ(p.sectors, 8192.0 * 8192 / 32 * (32 + 4));
  EXPECT_EQ(p.ideal_sectors, 8192.0 * 8192 / 32 * (4 + 4));
}

TEST(GpuFacts, BankConflicts) {
  const GpuPhaseFacts one = phase_of(shared_walk(1)), four = phase_of(shared_walk(4));
  EXPECT_EQ(one.shared_cycles, one.instructions.shared);
  EXPECT_EQ(one.bank_cycles, one.shared_accesses);
  EXPECT_EQ(four.shared_accesses, one.shared_accesses);
  EXPECT_EQ(four.bank_cycles, four.shared_cycles);
  EXPECT_GT(four.shared_cycles, 3.5 * one.shared_cycles);
  EXPECT_EQ(one.barriers, 1);
}

TEST(GpuFacts, ThreadsThatDoNothingAreLanesAllTheSame) {
  Program program = copy(1 << 20);
  const Expr i = var("b") * 256 + var("t");
  const Stmt guarded{If{var("t") % 2 < 1, block({assign("out", {i}, read("in", {i}, Float32))})}};
  program.phases[0].body = block(nest({{"t", 256, LoopKind::Thread}}, {guarded}));
  const GpuPhaseFacts p = phase_of(program);
  EXPECT_EQ(p.useful_lanes, 0.5);
  EXPECT_EQ(p.instructions.global(), 2.0 * (1 << 20) / 32);
  const Stmt few{If{var("t") < 32, block({assign("out", {i}, read("in", {i}, Float32))})}};
  program.phases[0].body = block(nest({{"t", 64, LoopKind::Thread}}, {few}));
  EXPECT_EQ(phase_of(program).useful_lanes, 1);  // one warp of two skips it
}

TEST(GpuFacts, UniformConditionsSkipWholeBlocks) {
  Program program = copy(1 << 20);
  const Expr i = var("b") * 256 + var("t");
  If branch{var("b") % 4 < 3, block({assign("out", {i}, read("in", {i}, Float32))})};
  branch.uniform = true;
  program.phases[0].body = block(nest({{"t", 256, LoopKind::Thread}}, {Stmt{branch}}));
  const GpuPhaseFacts p = phase_of(program);
  EXPECT_EQ(p.useful_lanes, 1);
  EXPECT_NEAR(p.instructions.global() / (2.0 * (1 << 20) / 32), 0.75, 0.1);
  // If the condition is not marked as uniform, the model evaluates it for the lanes of a few warps.
  branch.uniform = false;
  program.phases[0].body = block(nest({{"t", 256, LoopKind::Thread}}, {Stmt{branch}}));
  EXPECT_NE(phase_of(program).instructions.global(), p.instructions.global());
}

TEST(GpuFacts, AGuardIsTwoBranches) {
  Program guarded = copy(1 << 20), branches = guarded;
  const Expr i = var("b") * 256 + var("t");
  schedules::Assign assign{"out", {i}, read("in", {i}, Float32)};
  assign.guard = schedules::Guard{var("t") < 100, dsl::constant(Float32, 0)};
  const Block body = {Stmt{assign}};
  guarded.phases[0].body = block(nest({{"t", 256, LoopKind::Thread}}, body));
  branches.phases[0].body =
      block(nest({{"t", 256, LoopKind::Thread}}, schedules::with_branches(body)));
  const GpuPhaseFacts a = phase_of(guarded), b = phase_of(branches);
  EXPECT_EQ(a.instructions.total(), b.instructions.total());
  EXPECT_EQ(a.sectors, b.sectors);
  EXPECT_GT(a.instructions.global_stores, a.instructions.global_loads);
}

TEST(GpuFacts, ArraysOfAThreadAtRunTimeIndicesAreMemory) {
  const GpuPhaseFacts unrolled = phase_of(own_array_walk(LoopKind::Unrolled));
  EXPECT_EQ(unrolled.instructions.local, 0);
  EXPECT_EQ(phase_of(own_array_walk(LoopKind::Serial)).instructions.local, (1 << 20) / 32 * 8);
  EXPECT_EQ(unrolled.registers - phase_of(testing::copy(1 << 20)).registers, 8 - 2);
}

TEST(GpuFacts, DivisionsAreInstructions) {
  const auto by = [](int64_t divisor) {
    Program program = copy(1 << 20);
    const Expr i = var("b") * 256 + var("t");
    program.phases[0].body =
        block(nest({{"t", 256, LoopKind::Thread}},
                   {assign("out", {i}, read("in", {i / Expr(divisor)}, Float32))}));
    return phase_of(program).instructions.integer;
  };
  EXPECT_GT(by(7), by(8));
}

TEST(GpuFacts, OpenClHasNumbersToo) {
  const GpuPhaseFacts p = phase_of(copy(1 << 20), gpu("opencl"));
  EXPECT_GT(p.resident, 0);
  EXPECT_LE(p.occupancy, 1);
}

TEST(GpuFacts, UnknownBuffersAreErrors) {
  Program program = copy(1 << 20);
  program.arguments.pop_back();
  EXPECT_FALSE(extract_gpu_facts(program, gpu()));
}

}  // namespace
}  // namespace tw::cost_model
