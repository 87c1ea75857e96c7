// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>

namespace tw::tuner {
namespace {

TEST(Peak, IsPlausible) {
  const auto peak = measure_f32_peak(1, monotonic_clock(), 2'000'000);
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->threads, 1);
  // The bounds are a slow emulator and a wide core at 10 GHz.
  EXPECT_GT(peak->gflops, 0.01);
  EXPECT_LT(peak->gflops, 10 * 4 * 16 * 2);
  const Target host = host_target();
  EXPECT_EQ(peak->isa, host.has("avx512f") ? "avx512"
                       : host.has("avx2")  ? "avx2"
                       : host.has("avx")   ? "avx"
                                           : "baseline");
}

// The clock advances by 1 us at each call, so the rate is proportional to the work of one loop,
// i.e. to its vector length and its number of chains.
TEST(Peak, Fault73_IsOfTheTargetsInstructionSet) {
  const Target host = host_target();
  const auto on = [](std::string_view target) {
    int64_t now = 0;
    return *measure_f32_peak(
        1, [&now] { return now += 1000; }, 100'000, *parse_target(target));
  };
  const Peak baseline = on("x86-64-linux-sse4_1");
  EXPECT_EQ(baseline.isa, "baseline");
  if (!host.has("avx")) GTEST_SKIP() << "[SKIP] this machine has no AVX";
  EXPECT_EQ(on("x86-64-linux-avx-sse4_1").isa, "avx");
  EXPECT_DOUBLE_EQ(on("x86-64-linux-avx-sse4_1").gflops, 2 * baseline.gflops);
  if (!host.has("avx2") || !host.has("fma")) GTEST_SKIP() << "[SKIP] this machine has no AVX2";
  EXPECT_EQ(on("x86-64-v3").isa, "avx2");
  EXPECT_DOUBLE_EQ(on("x86-64-v3").gflops, 2 * baseline.gflops);
  if (!host.has("avx512f")) GTEST_SKIP() << "[SKIP] this machine has no AVX-512";
  EXPECT_EQ(on("x86-64-v4").isa, "avx512");
}

TEST(Peak, SeveralThreadsCountTogether) {
  const auto peak = measure_f32_peak(3, monotonic_clock(), 2'000'000);
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->threads, 3);
  EXPECT_GT(peak->gflops, 0.01);
}

/// Each reading of the clock advances it by `step_ns`, so the rate depends on the work alone.
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
    EXPECT_EQ(gauge.undisturbed(), 0);
    double slowest = 1e300, fastest = 0;
    for (size_t i = 0; i < 3 * Gauge::group; ++i) {
      const double speed = gauge.read();
      slowest = std::min(slowest, speed);
      fastest = std::max(fastest, speed);
    }
    EXPECT_GT(gauge.undisturbed(), 0.01);
    EXPECT_GE(gauge.undisturbed(), slowest);
    EXPECT_LE(gauge.undisturbed(), fastest);
  }
}

TEST(Gauge, Fault48_ThreadsMeet) {
  runtime::ThreadPool pool({.threads = 2});
  std::atomic<int64_t> looks = 0;
  Gauge gauge(pool, 2, [&looks] { return ++looks; });
  gauge.assemble(std::numeric_limits<int64_t>::max() / 2);  // returns before the limit
  EXPECT_GE(looks, 1);
}

TEST(Gauge, Fault48_AThreadThatDoesNotComeIsWaitedForAsLongAsThePatienceLasts) {
  runtime::ThreadPool pool({.threads = 2});
  int64_t now = 0;
  struct Late {
    Gauge gauge;
  } late = {Gauge(pool, 2, [&now] { return ++now; })};
  // A task that calls the pool again gets no other thread: it runs its own tasks one after the
  // other.
  const auto meet_alone = [](void* context, int32_t task) noexcept -> int32_t {
    if (task == 0) static_cast<Late*>(context)->gauge.assemble(1000);
    return 0;
  };
  pool.parallel_for(2, meet_alone, &late, 2, runtime::Distribution::Static);
  EXPECT_NEAR(static_cast<double>(now), 1000, 5);
}

TEST(Gauge, ForgetsWhatWasLongAgo) {
  int64_t now_ns = 0, step_ns = 1000;
  runtime::ThreadPool pool({.threads = 1});
  Gauge gauge(pool, 1, [&] { return now_ns += step_ns; });
  const auto read_group = [&] {
    for (size_t i = 1; i < Gauge::group; ++i) (void)gauge.read();
    return gauge.read();
  };
  const double fast = read_group();
  step_ns = 2000;
  const double slow = read_group();
  EXPECT_DOUBLE_EQ(fast, 2 * slow);
  now_ns += Gauge::memory_ns / 2;
  (void)read_group();
  EXPECT_DOUBLE_EQ(gauge.undisturbed(), fast);
  now_ns += Gauge::memory_ns / 2;
  (void)read_group();
  EXPECT_DOUBLE_EQ(gauge.undisturbed(), slow);
}

TEST(Gauge, OneReadingTooFastSaysLittle) {
  int64_t now_ns = 0, step_ns = 1000;
  runtime::ThreadPool pool({.threads = 1});
  Gauge gauge(pool, 1, [&] { return now_ns += step_ns; });
  const double usual = gauge.read();
  for (size_t i = 0; i < Gauge::group; ++i) {
    step_ns = i % 8 == 0 ? 500 : 1000;
    (void)gauge.read();
  }
  EXPECT_DOUBLE_EQ(gauge.undisturbed(), usual);
}

}  // namespace
}  // namespace tw::tuner
