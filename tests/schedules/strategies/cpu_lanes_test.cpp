// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

TEST(CpuLanes, HoldPartialResultsInVectors) {
  const Space space = space_of_workload("reduce_sum rows=64 cols=1000 f32 fast", "x86-64-v3");
  EXPECT_EQ(steps_of(space, "out: cpu_lanes lanes=4 tasks=1"), R"(rfactor out j 32
compute_at out.rf out i
split out.rf j_rf 8
reorder out.rf i j j_rf.0 j_rf.1
cache_write out.rf i
vectorize out.rf j_rf.1
unroll out.rf j_rf.0
unroll out j_rf
parallel out i
)");
  EXPECT_EQ(steps_of(space, "out: cpu_lanes lanes=1 tasks=1"), R"(rfactor out j 8
compute_at out.rf out i
reorder out.rf i j j_rf
cache_write out.rf i
vectorize out.rf j_rf
unroll out j_rf
parallel out i
)");
}

TEST(CpuLanes, HoldPartialResultsInsideOfAnotherStageToo) {
  const Space space = space_of_workload("softmax rows=64 cols=128 f32 fast", "x86-64-v3");
  EXPECT_EQ(steps_of(space,
                     "out: cpu_elementwise tile=4 vectors=1 columns=0 tasks=1; "
                     "total: cpu_lanes place=1 lanes=1 tasks=1; "
                     "e: cpu_elementwise place=1 tile=1 vectors=1 columns=0 tasks=1; "
                     "peak: cpu_lanes place=1 lanes=2 tasks=1"),
            R"(split out i 4
split out j 8
reorder out i.0 i.1 j.0 j.1
vectorize out j.1
parallel out i.0
rfactor total j 8
compute_at total out i.0
compute_at total.rf total i
reorder total.rf i j j_rf
cache_write total.rf i
vectorize total.rf j_rf
unroll total j_rf
compute_at e out i.0
split e j 8
reorder e i j.0 j.1
vectorize e j.1
rfactor peak j 16
compute_at peak out i.0
compute_at peak.rf peak i
split peak.rf j_rf 8
reorder peak.rf i j j_rf.0 j_rf.1
cache_write peak.rf i
vectorize peak.rf j_rf.1
unroll peak.rf j_rf.0
unroll peak j_rf
)");
}

// Hundreds of copies would take LLVM long.
TEST(CpuLanes, CombineManyPartialResultsInALoop) {
  const auto compute = dsl::parse_compute("input a: i8[4, 999]; out: i8[i=4] = sum(j=999) a[i, j]");
  const Space space = Space::derive(*compute, *parse_target("x86-64-v4"));
  EXPECT_EQ(steps_of(space, "out: cpu_lanes lanes=2 tasks=1").find("unroll out j_rf"),
            std::string::npos);
  EXPECT_NE(steps_of(space, "out: cpu_lanes lanes=1 tasks=1").find("unroll out j_rf"),
            std::string::npos);
}

TEST(CpuLanes, AreTheDefaultWhereRowsLieContiguous) {
  for (const char* key :
       {"softmax rows=64 cols=128 f32 fast", "argmax rows=64 cols=1000 f32 fast"}) {
    const Space space = space_of_workload(key, "x86-64-v4");
    const std::string text = space.to_string(space.default_point());
    EXPECT_NE(text.find(": cpu_lanes "), std::string::npos) << key << " " << text;
  }
}

TEST(CpuLanes, MatchReductionsWithoutAVectorAxisOnCpus) {
  const char* rows = "reduce_sum rows=64 cols=1000 f32 fast";
  EXPECT_TRUE(offers(space_of_workload(rows, "arm-64-linux"), "cpu_lanes"));
  EXPECT_FALSE(offers(space_of_workload(rows, "opencl"), "cpu_lanes"));
  EXPECT_FALSE(
      offers(space_of_workload("dense m=64 n=64 k=64 f32 fast", "x86-64-v3"), "cpu_lanes"));
}

}  // namespace
}  // namespace tw::schedules
