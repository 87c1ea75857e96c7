// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

constexpr const char* window =
    "conv2d n=1 c=16 h=14 w=14 k=32 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast";
constexpr const char* window_tile =
    "out: cpu_tile vector=0 vectors=2 tile.k=8 tile.y=3 tile.x=2 block=8 unroll=1 kblock=0 taps=2 "
    "reduction_order=0 outer_order=1 tasks=4 layout.in=1 layout.out=1";

TEST(CpuTile, IsARegisterTileOverAVectorAxisWithLayoutsThatFollowIt) {
  EXPECT_EQ(steps_of(space_of_workload(window, "x86-64-v3"), window_tile), R"(set_layout in NCHW8c
set_layout w OIHW8i16o
set_layout out NCHW8c
split out k 16
split out k.1 8
split out y 3
split out x 2
split out c 8
reorder out n y.0 x.0 k.0 c.0 r s c.1 y.1 x.1 k.1.0 k.1.1
cache_write out k.0
vectorize out k.1.1
unroll out y.1
unroll out x.1
unroll out k.1.0
unroll out r
unroll out s
parallel out n
parallel out y.0
parallel out x.0
parallel out k.0
)");
}

TEST(CpuTile, GroupsOfBlocksOfTheReductionGoAroundTheLoopsThatReuseThem) {
  const Space space = space_of_workload("dense m=64 n=64 k=64 f32 fast", "x86-64-v3");
  EXPECT_EQ(steps_of(space,
                     "out: cpu_tile vector=0 vectors=2 tile.m=1 tile.n=4 block=16 unroll=2 "
                     "kblock=2 outer_order=0 tasks=1 layout.in=0 layout.out=0"),
            R"(set_layout a MK16k8m
set_layout out MN8m
split out m 16
split out m.1 8
split out n 4
split out k 16
split out k.0 2
split out k.1 2
reorder out m.0 k.0.0 n.0 k.0.1 k.1.0 k.1.1 n.1 m.1.0 m.1.1
cache_write out n.0
vectorize out m.1.1
unroll out n.1
unroll out m.1.0
unroll out k.1.1
parallel out m.0
)");
}

TEST(CpuTile, AccumulatorsFitTheRegisters) {
  const std::string larger = with(window_tile, "tile.x=2", "tile.x=7");  // 42 of them
  EXPECT_FALSE(allows(space_of_workload(window, "x86-64-v3"), larger));
  const std::string twelve = with(window_tile, "tile.x=2", "tile.x=2");
  EXPECT_TRUE(allows(space_of_workload(window, "x86-64-v3"), twelve));
  const std::string full = with(window_tile, "tile.x=2", "tile.x=5");  // 30
  EXPECT_FALSE(allows(space_of_workload(window, "x86-64-v3"), full));
  EXPECT_TRUE(allows(space_of_workload(window, "x86-64-v4"), with(full, "taps=2", "taps=0")));
  // Nine taps of thirty accumulators are more than is worth building.
  EXPECT_FALSE(allows(space_of_workload(window, "x86-64-v4"), full));
}

TEST(CpuTile, ChoicesDoNotContradict) {
  const Space space = space_of_workload(window, "x86-64-v3");
  const std::string plain = with(window_tile, "taps=2", "taps=0");
  EXPECT_TRUE(allows(space, with(plain, "unroll=1", "unroll=8")));
  EXPECT_FALSE(allows(space, with(with(plain, "unroll=1", "unroll=8"), "block=8", "block=4")));
  EXPECT_FALSE(allows(space, with(plain, "kblock=0", "kblock=2")));    // two blocks are all
  EXPECT_FALSE(allows(space, with(plain, "vectors=2", "vectors=6")));  // more than channels
  EXPECT_FALSE(allows(space, with(plain, "block=8", "block=5")));      // no such value
}

TEST(CpuTile, MatchesReductionsWithAVectorAxisOnCpus) {
  EXPECT_TRUE(offers(space_of_workload(window, "arm-64-linux"), "cpu_tile"));
  EXPECT_FALSE(offers(space_of_workload(window, "opencl"), "cpu_tile"));
  const char* rows = "reduce_sum rows=64 cols=1000 f32 fast";
  EXPECT_FALSE(offers(space_of_workload(rows, "x86-64-v3"), "cpu_tile"));
  EXPECT_FALSE(
      offers(space_of_workload("gelu rows=64 cols=100 f32 fast", "x86-64-v3"), "cpu_tile"));
}

}  // namespace
}  // namespace tw::schedules
