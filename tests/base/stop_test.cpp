// SPDX-License-Identifier: Apache-2.0
#include "base/stop.h"

#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(Stop, ADefaultTokenNeverStops) {
  const StopToken never;
  EXPECT_EQ(never.reason(), std::nullopt);
  EXPECT_FALSE(any_of(never, StopToken()).is_stopped());
  EXPECT_FALSE(stop_on_interrupt(nullptr).is_stopped());
  EXPECT_TRUE(check_not_stopped(never, "space"));
}

TEST(Stop, AnInterruptReachesEveryCopy) {
  std::atomic<int> interrupts = 0;
  const StopToken token = stop_on_interrupt(&interrupts);
  const StopToken copy = token;
  EXPECT_FALSE(copy.is_stopped());
  interrupts = 2;
  EXPECT_EQ(copy.reason(), StopReason::Interrupted);
}

TEST(Stop, EitherOfTwoStops) {
  std::atomic<int> interrupts = 0;
  int64_t now = 0;
  const StopToken stop = any_of(stop_on_interrupt(&interrupts), stop_at([&] { return now; }, 5));
  now = 4;
  EXPECT_EQ(stop.reason(), std::nullopt);
  now = 5;
  EXPECT_EQ(stop.reason(), StopReason::OutOfTime);
  interrupts = 1;
  EXPECT_EQ(stop.reason(), StopReason::Interrupted) << "the first one's reason";
}

TEST(Stop, AnErrorSaysWhy) {
  const std::atomic<int> interrupts = 1;
  const StopToken user = stop_on_interrupt(&interrupts);
  const StopToken budget = stop_at([] { return int64_t{1}; }, 1);
  EXPECT_EQ(check_not_stopped(user, "space").error(),
            (Error{ErrorCode::Interrupted, "[space] interrupted before it was done"}));
  EXPECT_EQ(check_not_stopped(budget, "space").error(),
            (Error{ErrorCode::TryLater, "[space] out of time before it was done"}));
}

}  // namespace
}  // namespace tw
