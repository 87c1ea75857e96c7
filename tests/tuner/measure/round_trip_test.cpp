// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/round_trip.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/cores.h"

namespace tw::tuner {
namespace {

TEST(RoundTrip, IsATimeOrTheMachineIsBusy) {
  if (usable_cores() < 2) GTEST_SKIP() << "[SKIP] one core";
  const auto ns = measure_round_trip_ns(monotonic_clock());
  if (ns) {
    EXPECT_GT(*ns, 0);
    EXPECT_TRUE(std::isfinite(*ns));
  } else {
    EXPECT_EQ(ns.error().code, ErrorCode::TryLater);
  }
}

TEST(RoundTrip, Fault48_AThreadThatDoesNotComeIsWaitedForAsLongAsTheBudgetLasts) {
  if (usable_cores() < 2) GTEST_SKIP() << "[SKIP] one core";
  int64_t now = 0;
  // The clock runs so fast that the budget ends before anything happens.
  const auto ns = measure_round_trip_ns([&] { return now += 1'000'000'000; }, 1000);
  if (!ns) {
    EXPECT_EQ(ns.error().code, ErrorCode::TryLater);
  }
  EXPECT_GE(now, 2'000'000'000);
}

}  // namespace
}  // namespace tw::tuner
