// SPDX-License-Identifier: Apache-2.0
#include "tuner/peak.h"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST(Gauge, ReadsWhatThePeakIs) {
  runtime::ThreadPool pool({.threads = 2});
  for (const int threads : {1, 2}) {
    Gauge gauge(pool, threads, monotonic_clock());
    EXPECT_EQ(gauge.fastest(), 0);
    double fastest = 0;
    for (int i = 0; i < 20; ++i) fastest = std::max(fastest, gauge.read());
    EXPECT_GT(fastest, 0.01);
    EXPECT_EQ(gauge.fastest(), fastest);
  }
}

TEST(Gauge, ForgetsWhatWasLongAgo) {
  int64_t now_ns = 0, step_ns = 1000;
  runtime::ThreadPool pool({.threads = 1});
  Gauge gauge(pool, 1, [&] { return now_ns += step_ns; });
  const double fast = gauge.read();
  step_ns = 2000;
  const double slow = gauge.read();
  EXPECT_DOUBLE_EQ(fast, 2 * slow);
  now_ns += Gauge::memory_ns / 2;
  (void)gauge.read();
  EXPECT_DOUBLE_EQ(gauge.fastest(), fast);
  now_ns += Gauge::memory_ns / 2;
  (void)gauge.read();
  EXPECT_DOUBLE_EQ(gauge.fastest(), slow);
}

TEST(ReadBandwidth, IsPlausibleForAnySize) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{16} << 10, size_t{1} << 20}) {
    const double rate = measure_read_bandwidth(bytes, monotonic_clock(), 1'000'000);
    EXPECT_GT(rate, 0.01) << bytes;
    EXPECT_LT(rate, 10 * 2 * 64) << bytes;
  }
}

}  // namespace
}  // namespace tw::tuner
