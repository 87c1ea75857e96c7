// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

Space space_of_lookup(const char* text) {
  return Space::derive(*dsl::parse_compute(text), *parse_target("x86-64-v3"));
}

constexpr const char* rows =
    "input p: i64[9]; input t: f32[1000, 64]; "
    "out: f32[i=9, c=64] = sum(v=1000) select(p[i] == v, t[v, c], 0)";

TEST(CpuSelect, AGatherOfRowsTakesVectors) {
  EXPECT_EQ(steps_of(space_of_lookup(rows), "out: cpu_select vectors=2 tasks=1"),
            R"(split out c 16
split out c.1 8
reorder out i c.0 v c.1.0 c.1.1
cache_write out c.0
vectorize out c.1.1
unroll out c.1.0
parallel out i
)");
}

TEST(CpuSelect, AGatherAlongTheContiguousAxisTakesElements) {
  const Space space = space_of_lookup(
      "input p: i64[9]; input t: f32[64, 1000]; "
      "out: f32[c=64, i=9] = sum(v=1000) select(p[i] == v, t[c, v], 0)");
  EXPECT_EQ(steps_of(space, "out: cpu_select tasks=2"), R"(reorder out c i v
cache_write out i
parallel out c
parallel out i
)");
}

TEST(CpuSelect, AScatterGoesThroughItsUpdatesOnce) {
  const Space space = space_of_lookup(
      "input p: i64[9]; input u: f32[9, 64]; "
      "out: f32[i=1000, c=64] = sum(k=9) select(p[k] == i, u[k, c], 0)");
  EXPECT_EQ(steps_of(space, "out: cpu_select vectors=1 tasks=1"), R"(split out c 8
reorder out k i c.0 c.1
vectorize out c.1
)");
}

// An accumulator is needed if the result has another type than the sum. For a scatter it would be
// as large as the result.
TEST(CpuSelect, AScatterLeavesAResultOfAnotherTypeToAStageOfItsOwn) {
  const Space space = space_of_lookup(
      "input p: i64[9]; input u: f32[9]; t: f32[i=1000000] = sum(k=9) select(p[k] == i, u[k], 0); "
      "out: f16[i=1000000] = f16(t[i])");
  EXPECT_EQ(steps_of(space,
                     "out: cpu_elementwise tile=1 vectors=1 columns=0 tasks=1; t: cpu_select "
                     "tasks=1"),
            R"(split out i 16
reorder out i.0 i.1
vectorize out i.1
reorder t k i
)");
}

TEST(CpuSelect, TakesExtentsOf0) {
  for (const char* text :
       {"input p: i64[0]; input t: f32[9, 8]; out: f32[i=0, c=8] = sum(v=9) select(p[i] == v, "
        "t[v, c], 0)",
        "input p: i64[3]; input t: f32[0, 8]; out: f32[i=3, c=8] = sum(v=0) select(p[i] == v, "
        "t[v, c], 0)",
        "input p: i64[1]; input t: f32[9, 0]; out: f32[c=0] = sum(v=9) select(p[0] == v, t[v, c], "
        "0)",
        "input p: i64[3]; input u: f32[3]; out: f32[i=0] = sum(k=3) select(p[k] == i, u[k], 0)"}) {
    const Space space = space_of_lookup(text);
    const auto program = space.schedule(space.default_point()).program(limits_of(space.target()));
    EXPECT_TRUE(program) << text << program.error().message;
  }
}

TEST(CpuSelect, MatchesGathersAndScattersOnCpus) {
  EXPECT_TRUE(offers(space_of_lookup(rows), "cpu_select"));
  EXPECT_FALSE(offers(space_of_lookup(rows), "cpu_tile"));
  EXPECT_FALSE(
      offers(space_of_workload("reduce_sum rows=64 cols=10 f32 fast", "x86-64-v3"), "cpu_select"));
  EXPECT_FALSE(
      offers(Space::derive(*dsl::parse_compute(rows), *parse_target("cuda:sm_90a")), "cpu_select"));
}

}  // namespace
}  // namespace tw::schedules
