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
    // Inside its consumer a reduction would not be split.
    EXPECT_EQ(text.find("cpu_lanes place=1"), std::string::npos) << key << " " << text;
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
