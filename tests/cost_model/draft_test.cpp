// SPDX-License-Identifier: Apache-2.0
#include "cost_model/draft.h"

#include <gtest/gtest.h>

#include "tests/cost_model/programs.h"

namespace tw::cost_model {
namespace {

using namespace testing;

double cost(const Program& program, const Target& target = avx512(), int threads = 1) {
  const Result<double> ns = draft_cost_ns(program, target, threads);
  EXPECT_TRUE(ns) << ns.error().message;
  return ns.value_or(0);
}

TEST(Draft, ATileThatFillsTheRegistersComesNearThePeak) {
  const double peak_ns = 2.0 * 64 * 64 * 9 * 56 * 56 / (64 * 3.5);
  const double good = cost(conv({.pixels = 14, .vectors = 2}));
  EXPECT_LT(good, 1.6 * peak_ns);
  EXPECT_GT(good, peak_ns);
}

TEST(Draft, SmallTilesWaitForTheirSums) {
  const double good = cost(conv({.pixels = 14, .vectors = 2}));
  EXPECT_GT(cost(conv({.pixels = 1, .vectors = 1})), 3 * good);
  EXPECT_GT(cost(conv({.pixels = 4, .vectors = 1})), 1.3 * good);
}

TEST(Draft, SpillsCostMoreThanTheySave) {
  const double good = cost(conv({.pixels = 14, .vectors = 2}));
  EXPECT_GT(cost(conv({.pixels = 28, .vectors = 2})), 1.5 * good);
  EXPECT_GT(cost(conv({.pixels = 56, .vectors = 2})), cost(conv({.pixels = 28, .vectors = 2})));
  EXPECT_GT(cost(conv({.pixels = 14, .vectors = 2, .vectors_outside = true})), 1.2 * good);
}

TEST(Draft, LongUnrolledBlocksSpill) {
  const double short_block = cost(conv({.pixels = 14, .vectors = 2, .depth = 4}));
  const double long_block = cost(conv({.pixels = 14, .vectors = 2, .depth = 16}));  // 448 FMAs
  EXPECT_GT(long_block, short_block);
}

TEST(Draft, FewerLoadsPerFmaAreBetter) {
  // All without spills: 7, 14 and 28 FMAs for 8, 9 and 16 loads.
  const double one_by_seven = cost(conv({.pixels = 7, .vectors = 1}));
  const double two_by_seven = cost(conv({.pixels = 7, .vectors = 2}));
  const double four_by_seven = cost(conv({.pixels = 7, .vectors = 4}));
  EXPECT_GT(one_by_seven, two_by_seven);
  EXPECT_GT(two_by_seven, 0.99 * four_by_seven);
}

TEST(Draft, VectorsBeatScalars) {
  EXPECT_GT(cost(naive_gemm(LoopKind::Serial)), 3 * cost(naive_gemm(LoopKind::Vector)));
}

TEST(Draft, WiderRegistersHelp) {
  EXPECT_GT(cost(conv({.pixels = 7, .vectors = 1}), avx2()),
            cost(conv({.pixels = 7, .vectors = 1}), avx512()));
}

TEST(Draft, ThreadsHelpWhereTasksBalance) {
  Program program = conv({});
  const double one = cost(program), two = cost(program, avx512(), 2);
  EXPECT_LT(two, 0.6 * one);
  program.phases[0].axes = {{"k", 1}, {"y", 3}};
  const double three_tasks_on_two = cost(program, avx512(), 2);
  program.phases[0].axes = {{"k", 1}, {"y", 4}};
  EXPECT_GT(three_tasks_on_two, 0.95 * cost(program, avx512(), 2));  // both take two rounds
}

TEST(Draft, SlowCachesCost) {
  Target small = avx512();
  small.l1_bytes = 4 << 10;
  small.l2_bytes = 16 << 10;
  EXPECT_GT(cost(naive_gemm(LoopKind::Vector), small), cost(naive_gemm(LoopKind::Vector)));
}

TEST(Draft, BlocksNeedEightSumsAtOnce) {
  const auto cycles = [](double accumulators) {
    BlockFacts block;
    block.instructions.fma = accumulators;
    block.accumulators = accumulators;
    block.chain = 1;
    block.loop_reduces = true;
    return block_cost(block).cycles() / accumulators;  // an FMA
  };
  EXPECT_DOUBLE_EQ(cycles(1), 4);
  EXPECT_DOUBLE_EQ(cycles(4), 1);
  EXPECT_LT(cycles(8), 0.55);
  EXPECT_DOUBLE_EQ(cycles(8), cycles(16));
}

TEST(Draft, NoThreadsIsAnError) { EXPECT_FALSE(draft_cost_ns(conv({}), avx512(), 0)); }

}  // namespace
}  // namespace tw::cost_model
