// SPDX-License-Identifier: Apache-2.0
#include "runtime/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace tw::runtime {
namespace {

/// Returns the largest sum of padded bytes that are alive at one step. It is counted step by step.
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

/// Collects the lifetimes of the results of operators that run one after the other.
struct Results {
  std::vector<Lifetime> lifetimes;

  /// Adds an operator that reads earlier results and writes a new result. Returns the index of the
  /// new result.
  size_t run(int64_t bytes, const std::vector<size_t>& inputs) {
    const int now = static_cast<int>(lifetimes.size());
    for (const size_t input : inputs) lifetimes[input].last = now;
    lifetimes.push_back({bytes, now, now});
    return lifetimes.size() - 1;
  }
};

// Sizes are the KB of each result at batch 1, from the tables of the papers.
Results residual_network() {
  Results net;
  size_t x = net.run(3136, {});
  x = net.run(784, {x});
  for (const auto& [wide, narrow, blocks] :
       {std::array{3136, 784, 3}, {1568, 392, 4}, {784, 196, 6}, {392, 98, 3}})
    for (int block = 0; block < blocks; ++block) {
      const size_t shortcut = block == 0 ? net.run(wide, {x}) : x;
      const size_t reduced = net.run(narrow, {x});
      x = net.run(wide, {net.run(narrow, {reduced}), shortcut});
    }
  return net;
}

Results dense_network() {
  Results net;
  size_t x = net.run(784, {});
  for (const int64_t pixels : {3136, 784, 196, 49}) {
    for (int layer = 0; layer < 12; ++layer) {
      const size_t normalized = net.run(pixels * (64 + 32 * layer) / 256, {x});
      const size_t grown = net.run(pixels * 32 / 256, {net.run(pixels * 128 / 256, {normalized})});
      x = net.run(pixels * (96 + 32 * layer) / 256, {x, grown});
    }
    x = net.run(pixels * 64 / 1024, {net.run(pixels * 64 / 256, {x})});
  }
  return net;
}

Results branched_network() {
  Results net;
  size_t x = net.run(919, {});
  for (int block = 0; block < 9; ++block) {
    const size_t a = net.run(306, {x});
    const size_t b = net.run(306, {net.run(230, {x})});
    const size_t c = net.run(459, {net.run(459, {net.run(306, {x})})});
    const size_t d = net.run(153, {net.run(919, {x})});
    x = net.run(1225, {a, b, c, d});
  }
  return net;
}

Results network_of_long_skips() {
  Results net;
  std::vector<size_t> skips;
  size_t x = net.run(768, {});
  for (int64_t bytes = 16384; bytes >= 2048; bytes /= 2) {
    skips.push_back(net.run(bytes, {net.run(bytes, {x})}));
    x = net.run(bytes / 4, {skips.back()});
  }
  x = net.run(1024, {net.run(1024, {x})});
  for (int64_t bytes = 2048; bytes <= 16384; bytes *= 2) {
    const size_t joined = net.run(2 * bytes, {net.run(bytes, {x}), skips.back()});
    skips.pop_back();
    x = net.run(bytes, {net.run(bytes, {joined})});
  }
  return net;
}

TEST(ArenaPlan, NetworksTakeAtMostATenthMoreThanTheLowerBound) {
  for (const Results& net :
       {residual_network(), dense_network(), branched_network(), network_of_long_skips()}) {
    const ArenaPlan plan = plan_arena(net.lifetimes);
    expect_valid(plan, net.lifetimes);
    const int64_t bound = least_arena_bytes(net.lifetimes);
    EXPECT_EQ(bound, lower_bound_of(net.lifetimes));
    EXPECT_LE(10 * plan.bytes, 11 * bound) << net.lifetimes.size();
  }
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
  EXPECT_GE(plan.bytes, 12000);  // two large neighbours are alive at a time
  EXPECT_LE(plan.bytes, 20000);
}

TEST(ArenaPlan, TheSameArraysGiveTheSamePlan) {
  Random random(15);
  const auto lifetimes = random_lifetimes(random, 25);
  EXPECT_EQ(plan_arena(lifetimes).offsets, plan_arena(lifetimes).offsets);
}

}  // namespace
}  // namespace tw::runtime
