// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/interval.h"

#include <gtest/gtest.h>

#include "dsl/parse.h"

namespace tw::schedules {
namespace {

/// Returns "low + 0..extent", the interval of an index over inner loops x in 0..4 and k in 0..3, or
/// "unknown". y is constant.
std::string interval(const std::string& index) {
  const auto found = interval_of(dsl::parse_expr(index).value(), {{"x", 4}, {"k", 3}});
  return found ? dsl::to_string(found->low) + " + 0.." + std::to_string(found->extent) : "unknown";
}

TEST(Interval, IntervalsOfIndices) {
  EXPECT_EQ(interval("7"), "7 + 0..1");
  EXPECT_EQ(interval("y * 2"), "y * 2 + 0..1");
  EXPECT_EQ(interval("y * 2 + x + k - 1"), "y * 2 - 1 + 0..6");
  EXPECT_EQ(interval("x * 2"), "0 + 0..7");
  EXPECT_EQ(interval("y - x"), "y - 3 + 0..4");
  EXPECT_EQ(interval("min(y + x, 9)"), "min(y, 9) + 0..4");
  EXPECT_EQ(interval("min(max(y + x - 1, 0), 9)"), "min(max(y - 1, 0), 9) + 0..4");
  EXPECT_EQ(interval("(y + x) / 2"), "y / 2 + 0..3");
  EXPECT_EQ(interval("x / 4"), "0 + 0..1");
  EXPECT_EQ(interval("(x + 2) / 4"), "0 + 0..2");
  EXPECT_EQ(interval("(y * 8 + x) / 4"), "y * 8 / 4 + 0..1");
  EXPECT_EQ(interval("(y + x) % 5"), "0 + 0..5");
  EXPECT_EQ(interval("x * k"), "unknown");
}

TEST(Interval, CoversBothOrSaysNo) {
  const auto at = [](const std::string& low, int64_t extent) {
    return Interval{dsl::parse_expr(low).value(), extent};
  };
  const auto both = cover(at("y + 2", 3), at("y - 1", 2));
  ASSERT_TRUE(both);
  EXPECT_EQ(dsl::to_string(both->low), "y - 1");
  EXPECT_EQ(both->extent, 6);
  EXPECT_FALSE(cover(at("y", 1), at("2 * y", 1)));
}

}  // namespace
}  // namespace tw::schedules
