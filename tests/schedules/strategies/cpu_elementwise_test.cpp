// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

TEST(CpuElementwise, IsVectorsAlongTheLastAxisAndATileOfTheOneBefore) {
  const Space space = space_of_workload("gelu rows=64 cols=1000 f32 fast", "x86-64-v3");
  EXPECT_EQ(steps_of(space, "out: cpu_elementwise tile=4 vectors=2 columns=128 tasks=2"),
            R"(split out i 4
split out j 128
split out j.1 16
split out j.1.1 8
reorder out i.0 j.0 i.1 j.1.0 j.1.1.0 j.1.1.1
vectorize out j.1.1.1
unroll out j.1.1.0
parallel out i.0
parallel out j.0
)");
}

TEST(CpuElementwise, TilesTheAxisAlongWhichATransposedInputIsContiguous) {
  const Space space = space_of_workload(
      "expr fast input in0: f32[2, 32, 48, 64]; out: f32[n=2, c=64, h=32, w=48] = in0[n, h, w, c]",
      "x86-64-v3");
  EXPECT_EQ(steps_of(space, "out: cpu_elementwise tile=16 vectors=1 columns=0 tasks=2"),
            R"(split out c 16
split out w 8
reorder out n h c.0 c.1 w.0 w.1
vectorize out w.1
parallel out n
parallel out h
)");
  // A tile touches a cache line for each of its columns. With 8 columns, these are no more lines
  // than a set of the cache has ways.
  EXPECT_EQ(steps_of(space, "out: cpu_elementwise tile=16 vectors=1 columns=8 tasks=1"),
            R"(split out c 16
split out w 8
reorder out n h c.0 w.0 c.1 w.1
vectorize out w.1
parallel out n
)");
}

TEST(CpuElementwise, ABroadcastInputIsNotTransposed) {
  const Space space = space_of_workload(
      "expr fast input in0: f32[64, 8, 48]; input in1: f32[64]; out: f32[c=64, h=8, w=48] = "
      "in0[c, h, w] * in1[c]",
      "x86-64-v3");
  EXPECT_EQ(steps_of(space, "out: cpu_elementwise tile=4 vectors=1 columns=0 tasks=1"),
            R"(split out h 4
split out w 8
reorder out c h.0 h.1 w.0 w.1
vectorize out w.1
parallel out c
)");
  EXPECT_FALSE(allows(space, "out: cpu_elementwise tile=4 vectors=1 columns=8 tasks=1"));
}

TEST(CpuElementwise, MaySitInALoopOfItsConsumer) {
  const Space space = space_of_workload("softmax rows=64 cols=1000 f32 fast", "x86-64-v3");
  const std::string rest =
      "; total: cpu_lanes place=0 lanes=1 tasks=1; e: cpu_elementwise place=1 tile=1 "
      "vectors=1 columns=0 tasks=1; peak: cpu_lanes place=0 lanes=1 tasks=1";
  // `total`, the other reader of `e`, has a phase of its own, so that no loop contains both
  // readers.
  const std::string apart =
      steps_of(space, "out: cpu_elementwise tile=1 vectors=1 columns=0 tasks=1" + rest);
  EXPECT_EQ(apart.find("compute_at e "), std::string::npos) << apart;
  const std::string inside =
      steps_of(space, with("out: cpu_elementwise tile=1 vectors=1 columns=0 tasks=1" + rest,
                           "total: cpu_lanes place=0", "total: cpu_lanes place=1"));
  EXPECT_NE(inside.find("\ncompute_at total out i\n"), std::string::npos) << inside;
  EXPECT_NE(inside.find("\ncompute_at e out i\n"), std::string::npos) << inside;
}

TEST(CpuElementwise, MatchesStagesWithoutAReductionOnCpus) {
  const char* gelu = "gelu rows=64 cols=100 f32 fast";
  EXPECT_TRUE(offers(space_of_workload(gelu, "arm-64-linux"), "cpu_elementwise"));
  EXPECT_FALSE(offers(space_of_workload(gelu, "cuda:sm_80"), "cpu_elementwise"));
}

}  // namespace
}  // namespace tw::schedules
