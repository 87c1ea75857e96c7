// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

TEST(GpuElementwise, GivesNeighbouringElementsToNeighbouringThreads) {
  const Space space = space_of_workload("gelu rows=64 cols=1000 f32 fast", "opencl");
  EXPECT_EQ(steps_of(space, "out: gpu_elementwise threads=128 together=4 rows=0"),
            R"(fuse out i j
split out i*j 512
split out i*j.1 4
reorder out i*j.0 i*j.1.0 i*j.1.1
parallel out i*j.0
bind out i*j.1.0
vectorize out i*j.1.1
)");
  EXPECT_EQ(steps_of(space, "out: gpu_elementwise threads=128 together=1 rows=1"),
            R"(split out j 128
reorder out i j.0 j.1
parallel out i
bind out j.1
)");
}

TEST(GpuElementwise, ReducesWindowsElementByElement) {
  const Space space = space_of_workload(
      "max_pool2d n=1 c=3 h=9 w=9 kernel=3 stride=2 pad=1 f32 fast", "cuda:sm_80");
  const std::string steps =
      steps_of(space, "out: gpu_elementwise threads=32 together=1 rows=0 taps=1");
  EXPECT_NE(steps.find("unroll out s\n"), std::string::npos) << steps;
  EXPECT_EQ(steps.find("unroll out r\n"), std::string::npos) << steps;
}

TEST(GpuElementwise, ASingleNumberIsForOneThread) {
  const auto compute = dsl::parse_compute("input a: f32[64]; out: f32[] = sum(i=64) a[i]");
  ASSERT_TRUE(compute) << compute.error().message;
  const Space space = space_of(*compute, "opencl");
  EXPECT_EQ(space.to_string(space.default_point()), "out: gpu_elementwise");
  EXPECT_TRUE(space.schedule(space.default_point()).steps().empty());
}

}  // namespace
}  // namespace tw::schedules
