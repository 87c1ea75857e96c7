// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

Space space_of_scan(const char* text) {
  return Space::derive(*dsl::parse_compute(text), *parse_target("x86-64-v3"));
}

TEST(CpuScan, AlongRowsTakesSeveralRowsTogether) {
  const Space space =
      space_of_scan("input a: f32[64, 1000]; out: f32[i=64, j=1000] = sum(k <= j) a[i, k]");
  EXPECT_EQ(steps_of(space, "out: cpu_scan chains=4 steps=8 tasks=1"), R"(split out i 4
split out j 8
reorder out i.0 j.0 j.1 i.1
unroll out i.1
unroll out j.1
parallel out i.0
)");
  EXPECT_EQ(steps_of(space, "out: cpu_scan chains=1 steps=1 tasks=1"), R"(reorder out i j
parallel out i
)");
}

TEST(CpuScan, AlongAnotherAxisTakesVectors) {
  const Space space = space_of_scan(
      "input a: f32[3, 100, 64]; out: f32[i=3, j=100, l=64] = sum(k <= j) a[i, k, l]");
  EXPECT_EQ(steps_of(space, "out: cpu_scan chains=2 steps=1 tasks=2"), R"(split out l 16
split out l.1 8
reorder out i l.0 j l.1.0 l.1.1
vectorize out l.1.1
unroll out l.1.0
parallel out i
parallel out l.0
)");
}

TEST(CpuScan, MatchesScansOnCpus) {
  const char* scan = "input a: f32[70]; out: f32[j=70] = max(k <= j) a[k]";
  EXPECT_TRUE(offers(space_of_scan(scan), "cpu_scan"));
  EXPECT_FALSE(
      offers(space_of_workload("reduce_sum rows=64 cols=10 f32 fast", "x86-64-v3"), "cpu_scan"));
}

}  // namespace
}  // namespace tw::schedules
