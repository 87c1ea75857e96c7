// SPDX-License-Identifier: Apache-2.0
#include "runtime/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace tw::runtime {
namespace {

/// The largest sum of bytes that are alive at one step, counted step by step.
int64_t lower_bound_of(const std::vector<Lifetime>& lifetimes) {
  int64_t most = 0;
  for (const Lifetime& at : lifetimes) {
    int64_t alive = 0;
    for (const Lifetime& other : lifetimes)
      if (other.first <= at.first && at.first <= other.last) alive += (other.bytes + 63) / 64 * 64;
    most = std::max(most, alive);
  }
  return most;
}

void expect_valid(const ArenaPlan& plan, const std::vector<Lifetime>& lifetimes) {
  ASSERT_EQ(plan.offsets.size(), lifetimes.size());
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    ASSERT_GE(plan.offsets[i], 0);
    ASSERT_EQ(plan.offsets[i] % 64, 0);
    ASSERT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool meet =
          lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
      const bool overlap = plan.offsets[i] < plan.offsets[j] + lifetimes[j].bytes &&
                           plan.offsets[j] < plan.offsets[i] + lifetimes[i].bytes;
      ASSERT_FALSE(meet && overlap) << i << " and " << j;
    }
  }
}

std::vector<Lifetime> random_lifetimes(Random& random, int count) {
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(random.below(count));
    const int last = first + static_cast<int>(random.below(random.below(4) == 0 ? count : 3));
    lifetimes.push_back({random.below(20) * random.below(100), first, last});
  }
  return lifetimes;
}

TEST(ArenaPlan, RandomArraysThatMeetLieApart) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    const auto lifetimes = random_lifetimes(random, 1 + static_cast<int>(random.below(40)));
    const ArenaPlan plan = plan_arena(lifetimes);
    ASSERT_NO_FATAL_FAILURE(expect_valid(plan, lifetimes)) << "round " << round;
    ASSERT_GE(plan.bytes, lower_bound_of(lifetimes));
  }
}

TEST(ArenaPlan, RandomPlansAreCloseToTheLowerBound) {
  Random random(12);
  int64_t planned = 0, needed = 0;
  for (int round = 0; round < 200; ++round) {
    const auto lifetimes = random_lifetimes(random, 30);
    planned += plan_arena(lifetimes).bytes;
    needed += lower_bound_of(lifetimes);
  }
  EXPECT_LE(static_cast<double>(planned), 1.02 * static_cast<double>(needed));
}

TEST(ArenaPlan, AChainTakesTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int step = 0; step < 50; ++step) chain.push_back({4096, step, step + 1});
  const ArenaPlan plan = plan_arena(chain);
  expect_valid(plan, chain);
  EXPECT_EQ(plan.bytes, 2 * 4096);
}

TEST(ArenaPlan, AChainOfManySizesTakesTheLargestNeighbours) {
  const std::vector<Lifetime> chain = {{640, 0, 1}, {1280, 1, 2}, {320, 2, 3}, {1920, 3, 4},
                                       {64, 4, 5},  {2560, 5, 6}, {128, 6, 7}};
  const ArenaPlan plan = plan_arena(chain);
  expect_valid(plan, chain);
  EXPECT_EQ(plan.bytes, 2560 + 128);
}

TEST(ArenaPlan, AnArrayThatLivesThroughoutDoesNotSplitTheRest) {
  std::vector<Lifetime> lifetimes = {{512, 0, 20}};
  for (int step = 0; step < 20; ++step) lifetimes.push_back({1024, step, step + 1});
  const ArenaPlan plan = plan_arena(lifetimes);
  expect_valid(plan, lifetimes);
  EXPECT_EQ(plan.bytes, 512 + 2 * 1024);
}

TEST(ArenaPlan, OtherOrdersAreTriedWhereSizeMisleads) {
  Random random(13);
  int reached = 0;
  for (int round = 0; round < 100; ++round) {
    const auto lifetimes = random_lifetimes(random, 12);
    reached += plan_arena(lifetimes).bytes == lower_bound_of(lifetimes);
  }
  EXPECT_GE(reached, 90);
}

TEST(ArenaPlan, NothingAndEmptyArraysTakeNoMemory) {
  EXPECT_EQ(plan_arena({}).bytes, 0);
  const std::vector<Lifetime> lifetimes = {{0, 0, 3}, {1, 1, 1}, {0, 1, 2}};
  const ArenaPlan plan = plan_arena(lifetimes);
  expect_valid(plan, lifetimes);
  EXPECT_EQ(plan.bytes, 64);
}

TEST(ArenaPlan, ManyArraysArePlannedToo) {
  Random random(14);
  std::vector<Lifetime> lifetimes;
  for (int step = 0; step < 3000; ++step)
    lifetimes.push_back({64 * (1 + random.below(100)), step, step + 1});
  const ArenaPlan plan = plan_arena(lifetimes);
  EXPECT_GE(plan.bytes, 12000);  // two large neighbours
  EXPECT_LE(plan.bytes, 20000);
}

TEST(ArenaPlan, TheSameArraysGiveTheSamePlan) {
  Random random(15);
  const auto lifetimes = random_lifetimes(random, 25);
  EXPECT_EQ(plan_arena(lifetimes).offsets, plan_arena(lifetimes).offsets);
}

}  // namespace
}  // namespace tw::runtime
