// SPDX-License-Identifier: Apache-2.0
#include "tuner/peak.h"

#include <gtest/gtest.h>

namespace tw::tuner {
namespace {

TEST(Peak, IsPlausible) {
  const auto peak = measure_f32_peak(1, monotonic_clock(), 2'000'000);
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->threads, 1);
  // From a slow emulator to a wide core at 10 GHz.
  EXPECT_GT(peak->gflops, 0.01);
  EXPECT_LT(peak->gflops, 10 * 4 * 16 * 2);
  EXPECT_TRUE(peak->isa == "avx512" || peak->isa == "avx2" || peak->isa == "baseline");
}

TEST(Peak, SeveralThreadsCountTogether) {
  const auto peak = measure_f32_peak(3, monotonic_clock(), 2'000'000);
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->threads, 3);
  EXPECT_GT(peak->gflops, 0.01);
}

/// Each look at the clock is `step_ns` after the last, so the rate follows from the work alone.
TEST(Peak, RateIsWorkOverTimeOfTheClock) {
  const auto with_step = [](int64_t step_ns) {
    int64_t now = 0;
    return measure_f32_peak(
               1, [&now, step_ns] { return now += step_ns; }, 100 * step_ns)
        ->gflops;
  };
  EXPECT_DOUBLE_EQ(with_step(1000), 2 * with_step(2000));
}

}  // namespace
}  // namespace tw::tuner
