// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

using testing::HasSubstr;
using testing::Not;

Space space_of_text(const std::string& text) {
  const auto compute = dsl::parse_compute(text);
  EXPECT_TRUE(compute) << compute.error().message;
  Problem problem{*compute};
  problem.algorithms = true;
  return Space::derive(problem, *parse_target("x86-64-v4")).value();
}

Space conv_space() {
  const auto workload =
      dsl::parse_workload("conv2d n=1 c=32 h=14 w=14 k=48 r=3 s=3 pad=1 f32 fast");
  return Space::derive(problem_of(*workload), *parse_target("x86-64-v4")).value();
}

std::string configuration(const std::string& out) {
  return "winograd_4; out: cpu_transform " + out +
         "; out.m.m: cpu_tile place=1 vector=0 vectors=1 tile.x_point=1 tile.y_tile=1 "
         "tile.x_tile=4 tile.k=1 tile.y_tile*x_tile=0 block=32 unroll=1 kblock=0 outer_order=1 "
         "tasks=1 layout.in=0 "
         "layout.out=0; out.m.v: cpu_transform place=1 order=0 tasks=1; out.d: cpu_transform "
         "place=0 order=0 tasks=2 layout=1";
}

TEST(CpuTransform, StagesOfAStripAreComputedInItsLoop) {
  EXPECT_EQ(steps_of(conv_space(), configuration("strip=2 columns=0 order=1 layout=1")),
            R"(winograd out x 4
winograd out.m y 4
prepare out.u
parallel out.u x_point
prepare out.m.u
parallel out.m.u y_point
set_layout out NCHW16c
split out y 4
split out y.0 2
split out x 4
split out k 16
reorder out n y.0.0 y.0.1 x.0 k.0 y.1 x.1 k.1
vectorize out k.1
unroll out y.1
unroll out x.1
parallel out n
parallel out y.0.0
compute_at out.m out k.0
reorder out.m x_point n x_tile y k
vectorize out.m k
unroll out.m y
compute_at out.m.m out y.0.0
set_layout out.m.u ABDC16d
split out.m.m k 16
reorder out.m.m y_point x_point n y_tile k.0 c x_tile k.1
cache_write out.m.m k.0
vectorize out.m.m k.1
unroll out.m.m x_tile
compute_at out.m.v out y.0.0
split out.m.v c 16
reorder out.m.v c.0 n y_tile x_tile y_point x_point c.1
vectorize out.m.v c.1
unroll out.m.v y_point
unroll out.m.v x_point
compute_at out.v out.m.v x_tile
reorder out.v n y_in x_tile x_point c
vectorize out.v c
unroll out.v x_point
set_layout in NCHW16c
split out.d c 16
reorder out.d c.0 n y_in x_in c.1
vectorize out.d c.1
parallel out.d c.0
parallel out.d n
)");
}

TEST(CpuTransform, TheLongestStripIsTheWholeAxis) {
  const std::string whole =
      steps_of(conv_space(), configuration("strip=4 columns=1 order=1 layout=1"));
  EXPECT_THAT(whole, Not(HasSubstr("split out y.0")));
  EXPECT_THAT(whole, Not(HasSubstr("parallel out y")));
  EXPECT_THAT(whole, HasSubstr("parallel out k.0.0\nparallel out n\n"));
}

// The transformed data and the products of a whole row of 56 tiles would exceed L2.
TEST(CpuTransform, LongRowsOfTilesAreCutIntoSegments) {
  const auto workload =
      dsl::parse_workload("conv2d n=1 c=64 h=224 w=224 k=64 r=3 s=3 pad=1 f32 fast");
  const Space space = Space::derive(problem_of(*workload), *parse_target("x86-64-v4")).value();
  const std::string segments =
      steps_of(space, configuration("strip=1 segment=14 columns=0 order=1 layout=1"));
  EXPECT_THAT(segments, HasSubstr("split out x.0 14\n"));
  EXPECT_THAT(segments, HasSubstr("reorder out n y.0.0 x.0.0 y.0.1 x.0.1 k.0 y.1 x.1 k.1\n"));
  EXPECT_THAT(segments, HasSubstr("parallel out x.0.0\n"));
  EXPECT_THAT(segments, HasSubstr("compute_at out.m.m out x.0.0\n"));
  EXPECT_THAT(segments, HasSubstr("compute_at out.m.v out x.0.0\n"));
  const std::string rows =
      steps_of(space, configuration("strip=1 segment=0 columns=0 order=1 layout=1"));
  EXPECT_THAT(rows, Not(HasSubstr("split out x.0 ")));
}

// The consumer reads the convolution twice, but it is computed once, inside of the consumer's loop.
// The vectors of the transforms are along the channels there, too.
TEST(CpuTransform, ChainsOfTransformsAreNestedInTheirLastReader) {
  const Space space = space_of_text(
      "input a: f32[1, 16, 10, 10]; weight w: f32[32, 16, 3, 3]; conv: f32[n=1, k=32, y=8, x=8] = "
      "sum(c=16, r=3, s=3) a[n, c, y + r, x + s] * w[k, c, r, s]; "
      "out: f32[n=1, k=32, y=8, x=8] = conv[n, k, y, x] * sigmoid(conv[n, k, y, x])");
  Random random(1);
  int nested = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string text = space.schedule(space.sample(random)).to_string();
    if (text.find("compute_at conv out ") == std::string::npos) continue;
    ++nested;
    EXPECT_THAT(text, HasSubstr("vectorize conv k\n"));
    EXPECT_THAT(text, HasSubstr("vectorize conv.m k\n"));
    EXPECT_THAT(text, HasSubstr("unroll conv x\n"));
  }
  EXPECT_GT(nested, 0);
}

TEST(CpuTransform, LongConditionsOfTheUserAreNoChoices) {
  const Space space = space_of_text(
      "input a: f32[1, 16, 302, 10]; weight w: f32[32, 16, 3, 3]; "
      "conv: f32[n=1, k=32, y=300, x=8] = sum(c=16, r=3, s=3) a[n, c, y + r, x + s] * w[k, c, r, "
      "s]; "
      "out: f32[n=1, k=32, y=300, x=8] = select(y == 0, 0.0, conv[n, k, y, x])");
  Random random(1);
  int legal = 0;
  for (int i = 0; i < 20; ++i) {
    const Point point = space.sample(random);
    if (space.to_string(point).starts_with("out")) continue;
    legal += space.schedule(point).program().has_value();
  }
  EXPECT_GT(legal, 5);
}

TEST(CpuTransform, MatchesWhereAnAlgorithmRewrote) {
  EXPECT_TRUE(offers(conv_space(), "cpu_transform"));
  EXPECT_FALSE(
      offers(space_of_workload("add_relu n=1 c=8 h=8 w=8 f32 fast", "x86-64-v4"), "cpu_transform"));
}

}  // namespace
}  // namespace tw::schedules
