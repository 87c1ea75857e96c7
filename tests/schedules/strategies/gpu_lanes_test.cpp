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

TEST(GpuLanes, MatchReductionsOfRowsOnGpus) {
  const char* rows = "reduce_sum rows=64 cols=1000 f32 fast";
  EXPECT_TRUE(offers(space_of_workload(rows, "cuda:sm_80"), "gpu_lanes"));
  EXPECT_FALSE(offers(space_of_workload(rows, "x86-64-v3"), "gpu_lanes"));
  EXPECT_FALSE(
      offers(space_of_workload("dense m=64 n=64 k=64 f32 fast", "cuda:sm_80"), "gpu_lanes"));
}

}  // namespace
}  // namespace tw::schedules
