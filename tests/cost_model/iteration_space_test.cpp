// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/iteration_space.h"

#include <gtest/gtest.h>

namespace tw::cost_model::facts {
namespace {

using dsl::var;
using schedules::LoopKind;

std::vector<Level> one_level(int64_t extent, const std::string& name = "y") {
  return {make_level({}, name, 0, extent, LoopKind::Serial)};
}

TEST(IterationSpace, LiteralBoundsCountThemselves) {
  const Level level = make_level({}, "x", 2, 9, LoopKind::Serial);
  EXPECT_EQ(level.trips, 7);
  EXPECT_EQ(level.most_trips, 7);
  EXPECT_TRUE(level.has_literal_bounds);
}

TEST(IterationSpace, AnEmptyLoopMakesNoIteration) {
  EXPECT_EQ(make_level({}, "x", 5, 3, LoopKind::Serial).trips, 0);
}

// Padding of one row on each side: for two of 56 rows, only 2 of the 3 taps are inside.
TEST(IterationSpace, TrimmedLoopsAreAveragedOverTheRowsAround) {
  const Level level = make_level(one_level(56), "ky", dsl::max(0, dsl::Expr(1) - var("y")),
                                 dsl::min(3, dsl::Expr(57) - var("y")), LoopKind::Serial);
  EXPECT_DOUBLE_EQ(level.trips, (54.0 * 3 + 2 * 2) / 56);
  EXPECT_EQ(level.most_trips, 3);
  EXPECT_FALSE(level.has_literal_bounds);
}

// y = yo * 8 + yi has 30 values, so that the last of 4 tiles has 6 of 8 rows.
TEST(IterationSpace, TailsAreFoundThroughTwoLevels) {
  std::vector<Level> outer = one_level(4, "yo");
  const Level tail =
      make_level(outer, "yi", 0, dsl::min(8, dsl::Expr(30) - var("yo") * 8), LoopKind::Serial);
  EXPECT_DOUBLE_EQ(tail.trips, (8 * 3 + 6) / 4.0);
  outer.push_back(tail);
  const Level inner = make_level(outer, "k", var("yi"), 8, LoopKind::Serial);
  EXPECT_EQ(inner.most_trips, 8);
  // Three whole tiles have 8 + 7 + ... + 1 iterations, and the last one has 8 + ... + 3, over 30
  // rows.
  EXPECT_DOUBLE_EQ(inner.trips, (3 * 36 + 33) / 30.0);
}

// The bounds of the loop depend on data, namely on an index that names a row of a table. The trips
// are the difference of the bounds, or 0 if it is unknown.
TEST(IterationSpace, BoundsThatAreDataCountTheirDifference) {
  const dsl::Expr index = dsl::read("index", {var("y")}, Int64);
  const auto level = [&](const dsl::Expr& end) {
    return make_level(one_level(56), "v", dsl::max(0, index), end, LoopKind::Serial);
  };
  EXPECT_EQ(level(dsl::min(1000, index + 1)).trips, 1);
  EXPECT_EQ(level(dsl::min(index + 3, index + 2)).most_trips, 2);
  EXPECT_EQ(level(dsl::min(16, index + 64)).trips, 16);
  const dsl::Expr first = dsl::max(0, index);
  EXPECT_EQ(make_level(one_level(56), "v", first, first + 1, LoopKind::Serial).trips, 1);
  EXPECT_EQ(level(dsl::read("other", {var("y")}, Int64)).trips, 0);  // unknown
  EXPECT_FALSE(level(index + 1).has_literal_bounds);
}

TEST(IterationSpace, ManyPointsAreSampledReproducibly) {
  const auto average = [] {
    return make_level(one_level(100000), "k", 0, var("y") % 10, LoopKind::Serial).trips;
  };
  EXPECT_NEAR(average(), 4.5, 0.8);
  EXPECT_EQ(average(), average());
}

TEST(IterationSpace, ProbabilityIsTheShareOfPointsWhereTheConditionHolds) {
  EXPECT_DOUBLE_EQ(probability(one_level(10), var("y") < 7), 0.7);
  EXPECT_DOUBLE_EQ(probability(one_level(10), var("y") >= 2 && var("y") < 7), 0.5);
  EXPECT_DOUBLE_EQ(probability({}, dsl::constant_int(Bool, 1)), 1);
}

TEST(IterationSpace, ConditionsOnDataAreEvenOdds) {
  const dsl::Expr data = dsl::read("mask", {var("y")}, Int64);
  EXPECT_DOUBLE_EQ(probability(one_level(10), data < 7), 0.5);
}

}  // namespace
}  // namespace tw::cost_model::facts
