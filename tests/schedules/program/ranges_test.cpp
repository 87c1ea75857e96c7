// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/ranges.h"

#include <gtest/gtest.h>

namespace tw::schedules {
namespace {

TEST(Ranges, DecideWhatFits) {
  Ranges ranges;
  ranges.set("x", 0, 1000);
  const Expr x = dsl::var("x");
  EXPECT_EQ(ranges.of(x * 3 - 1).low, -1);
  EXPECT_EQ(ranges.of(x * 3 - 1).high, 2996);
  EXPECT_EQ(ranges.of(dsl::min(x, Expr(7)) % 4).high, 3);
  EXPECT_TRUE(ranges.all_fit_int32(x * 2000000));
  EXPECT_FALSE(ranges.all_fit_int32(x * 3000000 / 3000000));  // the product does not
  EXPECT_FALSE(ranges.all_fit_int32(dsl::var("unknown")));
}

TEST(Ranges, SumsThatMayWrapHaveAnyValue) {
  const Expr x = dsl::read("x", {Expr(0)}, Int64), positive = dsl::max(x, Expr(0));
  EXPECT_EQ(Ranges().of(positive).low, 0);
  for (const Expr& wraps : {positive + 1, positive * (int64_t{1} << 61), -dsl::min(x, Expr(0))}) {
    EXPECT_EQ(Ranges().of(wraps).low, INT64_MIN) << dsl::to_string(wraps);
    EXPECT_EQ(Ranges().of(dsl::min(wraps, Expr(99))).low, INT64_MIN) << dsl::to_string(wraps);
  }
  const Expr clamped = dsl::min(positive, Expr(99));
  EXPECT_EQ(Ranges().of(clamped * 2 + 1).low, 1);
  EXPECT_EQ(Ranges().of(clamped * 2 + 1).high, 199);
}

}  // namespace
}  // namespace tw::schedules
