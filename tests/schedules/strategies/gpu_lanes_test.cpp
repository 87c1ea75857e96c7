// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

TEST(GpuLanes, SplitARowOverTheThreadsOfABlock) {
  const Space space = space_of_workload("reduce_sum rows=64 cols=1000 f32 fast", "opencl");
  EXPECT_EQ(steps_of(space, "out: gpu_lanes threads=128"), R"(rfactor out j 128
compute_at out.rf out i
reorder out.rf i j_rf j
cache_write out.rf j_rf
bind out.rf j_rf
cache_write out i
bind out j_rf
parallel out i
)");
  EXPECT_FALSE(allows(space, "out: gpu_lanes threads=48"));
}

// One of the reductions is followed by an epilogue: the mean of layer_norm, whose readers read the
// epilogue's result. It may be computed in the loop over rows, too.
TEST(GpuLanes, MaySitInTheRowsOfTheirConsumer) {
  const Space space = space_of_workload("layer_norm rows=3 cols=50 f32 fast", "opencl");
  const std::string configuration =
      "out: gpu_elementwise threads=128 together=1 rows=1; spread: gpu_lanes place=1 threads=32; "
      "total: gpu_lanes place=1 threads=32";
  const std::string steps = steps_of(space, configuration);
  EXPECT_NE(steps.find("compute_at spread out i\n"), std::string::npos) << steps;
  EXPECT_NE(steps.find("compute_at total out i\n"), std::string::npos) << steps;
  // If a block does not compute whole rows, each stage has a phase of its own.
  const std::string apart = steps_of(space, with(configuration, "rows=1", "rows=0"));
  EXPECT_EQ(apart.find("compute_at total out"), std::string::npos) << apart;
}

// Two steps rfactor divide the sum of a row of 1,000 elements: into a partial sum for each thread,
// and into a sum for each part of the row.
TEST(GpuLanes, ReduceFewRowsInParts) {
  const Space space = space_of_workload("reduce_sum rows=2 cols=1000 f32 fast", "cuda:sm_90a");
  EXPECT_EQ(steps_of(space, "out: gpu_lanes threads=128 parts=4"), R"(rfactor out j 512
rfactor out j_rf 4 blocks
compute_at out.rf out.rf.rf i
cache_write out.rf j_rf
bind out.rf j_rf
cache_write out.rf.rf i
bind out.rf.rf j_rf
parallel out.rf.rf j_rf_rf
parallel out.rf.rf i
cache_write out i
bind out j_rf_rf
parallel out i
)");
  EXPECT_FALSE(allows(space, "out: gpu_lanes threads=512 parts=4"));
  const Space many = space_of_workload("reduce_sum rows=200 cols=1000 f32 fast", "cuda:sm_90a");
  EXPECT_FALSE(allows(many, "out: gpu_lanes threads=128 parts=4"));
}

// The reduction is divided into parts along the axis that allows the most parts.
TEST(GpuLanes, ReduceToASingleNumber) {
  const Space space = space_of_workload(
      "input x: f32[500, 100]; out: f32[] = sum(i=500, j=100) x[i, j]", "cuda:sm_90a");
  EXPECT_EQ(steps_of(space, "out: gpu_lanes threads=64 parts=8"), R"(rfactor out i 8 blocks
rfactor out.rf j 64
compute_at out.rf.rf out.rf i_rf
cache_write out.rf.rf j_rf
bind out.rf.rf j_rf
cache_write out.rf i_rf
bind out.rf j_rf
parallel out.rf i_rf
split out i_rf 8
cache_write out i_rf.0
bind out i_rf.1
)");
  EXPECT_FALSE(offers(space, "gpu_elementwise"));
  const Space few =
      space_of_workload("input x: f32[20]; out: f32[] = sum(i=20) x[i]", "cuda:sm_90a");
  EXPECT_FALSE(offers(few, "gpu_lanes"));
  EXPECT_TRUE(offers(few, "gpu_elementwise"));
  // Short axes have many terms together.
  const Space short_axes =
      space_of_workload("input x: f32[7, 8]; out: f32[] = sum(i=7, j=8) x[i, j]", "cuda:sm_90a");
  EXPECT_TRUE(offers(short_axes, "gpu_lanes"));
}

TEST(GpuLanes, ASingleNumberMaySitInABlockOfItsConsumer) {
  const Space space = space_of_workload(
      "input x: f32[3, 100]; m: f32[] = max(k=100) x[0, k]; out: f32[i=3, k=100] = x[i, k] - m[]",
      "cuda:sm_90a");
  const std::string steps = steps_of(
      space,
      "out: gpu_elementwise threads=64 together=1 rows=1; m: gpu_lanes place=1 threads=32 parts=1");
  EXPECT_NE(steps.find(R"(rfactor m k 64
compute_at m out i
compute_at m.rf out i
cache_write m.rf k_rf
bind m.rf k_rf
split m k_rf 64
cache_write m k_rf.0
bind m k_rf.1
)"),
            std::string::npos)
      << steps;
}

TEST(GpuLanes, MatchReductionsOfRowsOnGpus) {
  const char* rows = "reduce_sum rows=64 cols=1000 f32 fast";
  EXPECT_TRUE(offers(space_of_workload(rows, "cuda:sm_80"), "gpu_lanes"));
  EXPECT_FALSE(offers(space_of_workload(rows, "x86-64-v3"), "gpu_lanes"));
  EXPECT_FALSE(
      offers(space_of_workload("dense m=64 n=64 k=64 f32 fast", "cuda:sm_80"), "gpu_lanes"));
}

}  // namespace
}  // namespace tw::schedules
