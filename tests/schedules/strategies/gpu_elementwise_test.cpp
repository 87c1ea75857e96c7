// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
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

TEST(GpuElementwise, KeepsARowThatAReductionReadsTooInRegisters) {
  const auto compute = dsl::parse_compute(
      "input a: f32[64, 1000]; p: f32[i=64] = max(j=1000) a[i, j]; "
      "out: f32[i=64, j=1000] = a[i, j] - p[i]");
  ASSERT_TRUE(compute) << compute.error().message;
  const Space space = space_of(*compute, "cuda:sm_90a");
  const std::string configuration =
      "out: gpu_elementwise threads=64 together=4 rows=2; p: gpu_lanes place=1 threads=32";
  EXPECT_EQ(steps_of(space, configuration), R"(split out j 256
split out j.1 4
reorder out i j.0 j.1.0 j.1.1
parallel out i
bind out j.1.0
vectorize out j.1.1
unroll out j.0
rfactor p j 256
rfactor p j_rf 64 blocks
compute_at p out i
compute_at p.rf.rf p i
reorder p.rf.rf i j_rf_rf j_rf
cache_write p.rf.rf j_rf_rf
bind p.rf.rf j_rf_rf
unroll p.rf.rf j_rf
compute_at p.rf p.rf.rf j_rf_rf
reorder p.rf i j j_rf
vectorize p.rf j_rf
unroll p.rf j
cache_write p i
bind p j_rf_rf
cache_read a out i p.rf out
split a@out i1 256
split a@out i1.1 4
reorder a@out i1.1.0 i1.0 i1.1.1
bind a@out i1.1.0
unroll a@out i1.0
vectorize a@out i1.1.1
store_in a@out
)");
  // A thread keeps at most 64 elements, so a row of 4,096 needs 64 threads.
  const Space wide = space_of_workload("softmax rows=64 cols=4096 f32 fast", "cuda:sm_90a");
  const auto of_threads = [](int threads) {
    return fmt::format(
        "out: gpu_elementwise threads={} together=4 rows=2; total: gpu_lanes place=1 threads=32; "
        "e: gpu_elementwise place=1 threads=32 together=1 rows=0; peak: gpu_lanes place=1 "
        "threads=32",
        threads);
  };
  EXPECT_TRUE(allows(wide, of_threads(64)));
  EXPECT_FALSE(allows(wide, of_threads(32)));
  // Nothing reduces rows for an elementwise function alone.
  EXPECT_FALSE(allows(space_of_workload("gelu rows=64 cols=1000 f32 fast", "cuda:sm_90a"),
                      "out: gpu_elementwise threads=128 together=4 rows=2"));
}

// The sums of 50 columns keep two blocks of threads busy. Eight parts of each sum keep 16 busy.
TEST(GpuElementwise, FewLongSumsAreComputedInParts) {
  const Space space = space_of_workload(
      "input a: f32[1000, 50]; out: f32[j=50] = sum(i=1000) a[i, j]", "cuda:sm_90a");
  EXPECT_EQ(steps_of(space, "out: gpu_elementwise threads=32 together=1 parts=8"),
            R"(rfactor out i 8 blocks
split out.rf j 32
reorder out.rf i_rf j.0 j.1 i
cache_write out.rf j.1
parallel out.rf i_rf
parallel out.rf j.0
bind out.rf j.1
split out j 32
cache_write out j.1
parallel out j.0
bind out j.1
)");
  const Space wide = space_of_workload(
      "input a: f32[1000, 200000]; out: f32[j=200000] = sum(i=1000) a[i, j]", "cuda:sm_90a");
  EXPECT_FALSE(allows(wide, "out: gpu_elementwise threads=32 together=1 parts=8"));
}

TEST(GpuElementwise, AShortSumToASingleNumberIsForOneThread) {
  const auto compute = dsl::parse_compute("input a: f32[20]; out: f32[] = sum(i=20) a[i]");
  ASSERT_TRUE(compute) << compute.error().message;
  const Space space = space_of(*compute, "opencl");
  EXPECT_EQ(space.to_string(space.default_point()), "out: gpu_elementwise");
  EXPECT_TRUE(space.schedule(space.default_point()).steps().empty());
}

}  // namespace
}  // namespace tw::schedules
