// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/bandwidth.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tw::tuner {
namespace {

Target machine(int64_t l1, int64_t l2, int64_t l3) {
  Target target;
  target.machine.caches[0].bytes = l1;
  target.machine.caches[1].bytes = l2;
  target.machine.caches[2].bytes = l3;
  return target;
}

std::string names(const std::vector<MemoryLevel>& levels) {
  std::string text;
  for (const MemoryLevel& level : levels) text += std::string(level.name) + " ";
  return text;
}

TEST(MemoryLevels, AreTheCachesThatGetLargerAndMemory) {
  EXPECT_EQ(names(memory_levels(machine(32 << 10, 1 << 20, 32 << 20), 1)), "L1 L2 L3 memory ");
  // The L2 caches of eight cores hold together as much as the L3 that they share, so L3 is left
  // out.
  EXPECT_EQ(names(memory_levels(machine(32 << 10, 1 << 20, 8 << 20), 8)), "L1 L2 memory ");
  EXPECT_EQ(names(memory_levels(machine(0, 0, 0), 1)), "memory ");
  Target gpu = machine(0, 50 << 20, 0);
  gpu.architecture = Architecture::Cuda;
  EXPECT_EQ(names(memory_levels(gpu, 1)), "L2 memory ");
}

TEST(MemoryLevels, TheSmallestThatHoldsTheArraysIsTheirs) {
  const Target target = machine(32 << 10, 1 << 20, 32 << 20);
  const auto name = [&](int64_t footprint, int threads) {
    return std::string(level_of(footprint, target, threads).name);
  };
  EXPECT_EQ(name(0, 1), "L1");
  EXPECT_EQ(name(32 << 10, 1), "L1");
  EXPECT_EQ(name((32 << 10) + 1, 1), "L2");
  EXPECT_EQ(name(64 << 10, 2), "L1");
  EXPECT_EQ(name(4 << 20, 1), "L3");
  EXPECT_EQ(name(4 << 20, 4), "L2");
  EXPECT_EQ(name(64 << 20, 4), "memory");
  EXPECT_EQ(name(std::numeric_limits<int64_t>::max(), 1), "memory");
}

TEST(Bandwidth, OfAKernelFollowsItsShareOfWrites) {
  const Bandwidth rate{.read_gb_per_s = 40, .copy_gb_per_s = 20};
  EXPECT_DOUBLE_EQ(rate.of(100, 0), 40);
  EXPECT_DOUBLE_EQ(rate.of(100, 100), 20);
  EXPECT_DOUBLE_EQ(rate.of(0, 100), 20);
  // 200 of the 300 bytes are read in 5 ns. The other 100 are copied to the 100 written in 10 ns.
  EXPECT_DOUBLE_EQ(rate.of(300, 100), 400.0 / 15);
  EXPECT_EQ(rate.of(0, 0), 0);
  EXPECT_EQ(Bandwidth{}.of(1, 1), 0);
}

TEST(Bandwidth, IsPlausibleForAnySize) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{16} << 10, int64_t{3} << 20})
    for (const int threads : {1, 3}) {
      const auto rate = measure_bandwidth(bytes, threads, monotonic_clock(), 1'000'000);
      ASSERT_TRUE(rate) << rate.error().message;
      EXPECT_GT(rate->read_gb_per_s, 0.01) << bytes;
      EXPECT_LT(rate->read_gb_per_s, 3 * 10 * 2 * 64) << bytes;
      EXPECT_GT(rate->copy_gb_per_s, 0.01) << bytes;
      EXPECT_LT(rate->copy_gb_per_s, 3 * 10 * 2 * 64) << bytes;
    }
}

/// Each reading of the clock advances it by `step_ns`, so the rate depends on the work alone.
TEST(Bandwidth, IsBytesOverTimeOfTheClock) {
  const auto with_step = [](int64_t step_ns) {
    int64_t now = 0;
    return measure_bandwidth(
               1 << 20, 1, [&now, step_ns] { return now += step_ns; }, 100 * step_ns)
        .value();
  };
  EXPECT_DOUBLE_EQ(with_step(1000).read_gb_per_s, 65.536);
  EXPECT_DOUBLE_EQ(with_step(2000).copy_gb_per_s, 65.536 / 2);
}

TEST(Bandwidth, OfArraysBeyondEveryCacheIsThatOfMemory) {
  const auto rate = measure_bandwidth(
      std::numeric_limits<int64_t>::max(), 1, [now = int64_t{0}]() mutable { return now += 1000; },
      1000);
  EXPECT_TRUE(rate) << "it was to take as many bytes as show the speed of memory";
}

}  // namespace
}  // namespace tw::tuner
