// SPDX-License-Identifier: Apache-2.0
#include "tuner/round_trip.h"

#include <gtest/gtest.h>

#include "base/cores.h"

namespace tw::tuner {
namespace {

// A clock that moves slower makes the same passes of the ball faster.
TEST(RoundTrip, IsTimedByTheClock) {
  if (usable_cores() < 2) GTEST_SKIP() << "[SKIP] one core";
  const Clock real = monotonic_clock();
  const auto ns = measure_round_trip_ns(real);
  const auto in_thousandths = measure_round_trip_ns([&] { return real() / 1000; }, 20'000);
  if (!ns || !in_thousandths) GTEST_SKIP() << "[SKIP] the machine is busy";
  EXPECT_GT(*ns, 0);
  EXPECT_LT(*in_thousandths, *ns);
}

TEST(RoundTrip, Fault48_AThreadThatDoesNotComeIsWaitedForAsLongAsTheBudgetLasts) {
  if (usable_cores() < 2) GTEST_SKIP() << "[SKIP] one core";
  int64_t now = 0;
  // Time runs so fast that nothing happens in the budget.
  const auto ns = measure_round_trip_ns([&] { return now += 1'000'000'000; }, 1000);
  if (!ns) {
    EXPECT_EQ(ns.error().code, ErrorCode::TryLater);
  }
  EXPECT_GE(now, 2'000'000'000);
}

}  // namespace
}  // namespace tw::tuner
