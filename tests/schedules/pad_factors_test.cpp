// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/nest.h"
#include "schedules/space/algorithms.h"
#include "schedules/space/space.h"
#include "tests/isa_targets.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

dsl::Compute conv(const std::string& shape) {
  return dsl::parse_workload("conv2d " + shape + " f32 fast").value().compute;
}

/// Returns a convolution of a row of pixels, where `condition` says that index `at` is inside the
/// row.
std::string row_of(const std::string& condition, const std::string& at = "x + s - 1") {
  return fmt::format(
      "input in: i8[8, 6]; weight w: i8[5, 8, 3]; out: i32[k=5, x=6] = sum(c=8, s=3) "
      "i32(select({}, in[c, {}], 0i8)) * i32(w[k, c, s])",
      condition, at);
}

std::string refusal_to_pad(const std::string& text, const std::string& axis = "c") {
  const Schedule schedule = Schedule(dsl::parse_compute(text).value()).pad_factors("out", axis);
  return schedule.error() ? schedule.error()->message : "";
}

TEST(PadFactors, CopiesZerosAroundElements) {
  for (const char* shape :
       {"n=1 c=3 h=6 w=7 k=4 r=3 s=3 pad=1", "n=2 c=2 h=9 w=8 k=3 r=3 s=3 stride=2 pad=1",
        "n=1 c=4 h=6 w=6 k=2 r=3 s=3 dilation=2 pad=2", "n=1 c=2 h=5 w=5 k=2 r=5 s=5 pad=2"}) {
    const dsl::Compute compute = conv(shape);
    const std::string stage = compute.stages[0].name;
    const Schedule schedule = Schedule(compute).pad_factors(stage, "c");
    ASSERT_FALSE(schedule.error()) << shape << schedule.error()->message;
    const auto program = schedule.program();
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(disagreement(compute, *program), std::nullopt) << shape;
    const dsl::Stage& copy = schedule.nest().compute.stages[0];
    EXPECT_EQ(copy.name, stage + ".in");
    EXPECT_EQ(copy.axes.back().name, "c") << "neighbours along the sum are last";
  }
  EXPECT_EQ(Schedule(conv("n=1 c=3 h=6 w=7 k=4 r=3 s=3 pad=1"))
                .pad_factors("out", "c")
                .nest()
                .compute.shape_of("out.in"),
            (std::vector<int64_t>{1, 8, 9, 3}));
}

TEST(PadFactors, OfRandomConvolutionsComputeWhatTheComputeMeans) {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    const auto extent = [&](int64_t least, int64_t most) {
      return least + random.below(most - least + 1);
    };
    const int64_t taps = extent(1, 4), dilation = extent(1, 2), pad = extent(1, 3);
    const int64_t least = std::max<int64_t>((taps - 1) * dilation + 1 - 2 * pad, 1);
    const std::string shape =
        fmt::format("n={} c={} h={} w={} k={} r={} s={} stride={} dilation={} pad={}", extent(1, 2),
                    extent(1, 4), extent(least, least + 4), extent(least, least + 4), extent(1, 4),
                    taps, taps, extent(1, 3), dilation, pad);
    const dsl::Compute compute = conv(shape);
    const Schedule schedule = Schedule(compute).pad_factors(compute.stages[0].name, "c");
    ASSERT_FALSE(schedule.error()) << shape << schedule.error()->message;
    EXPECT_EQ(disagreement(compute, schedule.program().value()), std::nullopt) << shape;
  }
}

TEST(PadFactors, NeedsAConditionThatIsOfThePadding) {
  EXPECT_EQ(refusal_to_pad(row_of("0 <= x + s - 1 && x + s - 1 < 6")), "");
  // Only one side of the row is padded.
  EXPECT_EQ(refusal_to_pad(row_of("x + s < 6", "x + s")), "");
  EXPECT_THAT(refusal_to_pad(row_of("1 <= x + s - 1 && x + s - 1 < 6")),
              HasSubstr("more than that the indices are within it"));
  EXPECT_THAT(refusal_to_pad(row_of("0 <= x + s - 1 && x + s - 1 < 6 && in[0, 0] < 1i8")),
              HasSubstr("more than that the indices are within it"));
  EXPECT_THAT(refusal_to_pad(row_of("0 <= x + s - 1 && x + s - 1 < 6"), "s"),
              HasSubstr("no element for which 's' is an index"));
  EXPECT_THAT(refusal_to_pad(row_of("0 <= x + s - 1 && x + s - 1 < 6"), "x"),
              HasSubstr("'out' does not reduce over 'x'"));
  EXPECT_THAT(refusal_to_pad("input in: i8[8, 6]; weight w: i8[5, 8]; out: i32[k=5, x=6] = "
                             "sum(c=8) i32(in[c, x]) * i32(w[k, c])"),
              HasSubstr("no factor of 'out' is padded"));
  EXPECT_THAT(refusal_to_pad("input in: i8[8, 6]; out: i32[x=6] = sum(c=8) i32(in[c, x])"),
              HasSubstr("'out' is no sum of products"));
  const dsl::Compute compute =
      dsl::parse_compute(row_of("0 <= x + s - 1 && x + s - 1 < 6")).value();
  EXPECT_THAT(Schedule(compute).split("out", "x", 2).pad_factors("out", "c").error()->message,
              HasSubstr("'out' has steps already"));
}

/// Returns the names of the algorithms that match the compute on a target with the instruction set.
std::vector<std::string> matching(const std::string& text, const std::string& isa) {
  const Target target = parse_target(target_text_of_isa(isa)).value();
  std::vector<std::string> names;
  for (const Rewritten& rewritten : apply_algorithms(dsl::parse_compute(text).value(), target))
    names.emplace_back(rewritten.algorithm);
  return names;
}

TEST(PaddedTile, IsForTilesOfACore) {
  const std::string padded = row_of("0 <= x + s - 1 && x + s - 1 < 6");
  EXPECT_THAT(matching(padded, "amx"), testing::Contains("padded_tile"));
  EXPECT_THAT(matching(padded, "avx512_bf16"), testing::Not(testing::Contains("padded_tile")));
  EXPECT_THAT(matching("input in: i8[8, 6]; weight w: i8[5, 8]; out: i32[k=5, x=6] = "
                       "sum(c=8) i32(in[c, x]) * i32(w[k, c])",
                       "amx"),
              testing::Not(testing::Contains("padded_tile")));
  // A copied element would be used only three times, too few for a copy to pay.
  EXPECT_THAT(matching("input in: i8[8, 6]; weight w: i8[8, 3]; out: i32[x=6] = sum(c=8, s=3) "
                       "i32(select(0 <= x + s - 1 && x + s - 1 < 6, in[c, x + s - 1], 0i8)) * "
                       "i32(w[c, s])",
                       "amx"),
              IsEmpty());
}

}  // namespace
}  // namespace tw::schedules
