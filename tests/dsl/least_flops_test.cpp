// SPDX-License-Identifier: Apache-2.0
#include "dsl/least_flops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "dsl/parse.h"
#include "dsl/workload.h"

namespace tw::dsl {
namespace {

double share_of(const Compute& compute) { return least_flops(compute) / count_flops(compute); }
double share_of(const std::string& text) { return share_of(parse_compute(text).value()); }
double share_of_conv(const char* shape) {
  return share_of(make_workload("conv2d", parse_shape(shape).value()).value().compute);
}

TEST(LeastFlops, WithoutConditionsAreAll) {
  EXPECT_EQ(share_of_conv("n1c8h33w33k8r3s3"), 1);
  EXPECT_EQ(share_of("input a: f32[4, 5]; input b: f32[5]; "
                     "out: f32[i=4] = sum(k=5) a[i, k] * b[k]"),
            1);
}

TEST(LeastFlops, OfAConvolutionExcludeThePadding) {
  EXPECT_DOUBLE_EQ(share_of_conv("n1c8h33w33k8r3s3p36d36"), 1.0 / 9);
  // Each tap multiplies all 8 rows and columns, and the result has 204 rows and columns.
  EXPECT_DOUBLE_EQ(share_of_conv("n1c4h8w8k4r3s3p99"), 8.0 * 8 / (204 * 204));
  // Along an axis there are 3 * 56 pairs of a tap and a row of the result. Two of them read
  // padding.
  EXPECT_DOUBLE_EQ(share_of_conv("n1c8h56w56k8r3s3p1"), 166.0 * 166 / (168 * 168));
  EXPECT_DOUBLE_EQ(share_of_conv("n1c8h56w56k8r3s3p1st2"), 83.0 * 83 / (84 * 84));
}

TEST(LeastFlops, OfAPaddingStageAreThoseOfItsReader) {
  EXPECT_DOUBLE_EQ(share_of("input a: f32[8]; input w: f32[3]; "
                            "p: f32[i=208] = select(100 <= i && i < 108, a[i - 100], 0); "
                            "out: f32[x=206] = sum(r=3) p[x + r] * w[r]"),
                   8.0 / 206);
}

TEST(LeastFlops, DividePointsThatRemaindersDecide) {
  EXPECT_DOUBLE_EQ(share_of("input a: f32[50]; "
                            "out: f32[x=100] = sum(r=4) select((x + r) % 2 == 0, a[x / 2], 0)"),
                   0.5);
}

// The bound is used to refuse impossible speeds. It must not count terms that a kernel may skip
// because of data.
TEST(LeastFlops, OfTermsThatDataChooseAreNone) {
  EXPECT_EQ(share_of("input m: i64[9]; input a: f32[9]; "
                     "out: f32[i=4] = sum(k=9) select(m[k] < 3, a[k], 0)"),
            0);
}

TEST(LeastFlops, OfAGatherAreThoseThatAreCounted) {
  EXPECT_EQ(share_of("input p: i64[4]; input t: f32[1000, 8]; "
                     "out: f32[i=4, c=8] = sum(v=1000) select(p[i] == v, t[v, c], 0)"),
            1);
}

// The condition has 10^12 points, too many to count. The bound is lower than the exact share, a
// half, and is found quickly.
TEST(LeastFlops, AreALowerBoundOfConditionsWithManyPoints) {
  const double share = share_of(
      "input a: f32[1000000]; out: f32[x=1000000] = sum(r=1000000) "
      "select((x * r) % 7 < 4 && x < r, a[r], 0)");
  EXPECT_GE(share, 0);
  EXPECT_LE(share, 0.5);
}

TEST(LeastFlops, OfNothingAreNone) {
  EXPECT_EQ(least_flops(parse_compute("input a: f32[4]; "
                                      "out: f32[i=4] = sum(k=0) select(i < k, a[i], 0)")
                            .value()),
            0);
}

TEST(LeastFlops, AreAShareOfAWorkload) {
  EXPECT_DOUBLE_EQ(needed_share("conv2d n=1 c=8 h=33 w=33 k=8 r=3 s=3 pad=36 dilation=36 f32 fast"),
                   1.0 / 9);
  EXPECT_EQ(needed_share("matmul m=8 n=8 k=8 f32 fast"), 1);
  EXPECT_EQ(needed_share("no key"), 1);
}

// After about ten paddings in a row, a stage's expression would be too large to analyse. Then the
// bound counts no operations for it.
TEST(LeastFlops, OfManyPaddingsEndSoon) {
  std::string text = "input a: f32[8]; p0: f32[i=8] = select(1 <= i, a[i] + a[i - 1], 0); ";
  for (int n = 1; n < 40; ++n)
    text += fmt::format("p{0}: f32[i=8] = select(1 <= i, p{1}[i] + p{1}[i - 1], 0); ", n, n - 1);
  text += "out: f32[x=8] = sum(r=3) p39[x] * a[r]";
  EXPECT_LE(share_of(text), 0.9);
}

}  // namespace
}  // namespace tw::dsl
