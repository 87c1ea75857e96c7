// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

constexpr const char* half = "dense m=128 n=128 k=128 bf16 fast";
constexpr const char* warps =
    "product: gpu_mma warps.rows=2 warps.columns=1 tiles=2 block.rows=32 copy.rows=1 "
    "block.columns=8 copy.columns=2 stages=3 unroll=4 staged=0 raster=1 split=1 resident=1";

TEST(GpuMma, WarpsComputeTensorTilesOfABlock) {
  EXPECT_EQ(steps_of(space_of_workload(half, "cuda:sm_80"), warps), R"(epilogue out product
reorder product m n k
split product m 32
split product m.1 16
split product m.1.1 8
split product n 8
split product n.1 2
split product k 32
split product k.1 16
reorder product m.0 n.0 k.0 m.1.0 m.1.1.1 n.1.0 k.1.0 m.1.1.0 n.1.1 k.1.1
cache_write product n.0
cache_operand product 1 k.0 k.1.0 m.1.0 m.1.1.0 m.1.1.1 k.1.1
cache_operand product 2 k.0 k.1.0 n.1.0 n.1.1 k.1.1
parallel product m.0
parallel product n.0
bind product m.1.0
bind product m.1.1.1
bind product n.1.0
unroll product k.1.0
tensorize product m.1.1.0 mma_m16n8k16_bf16
split a@product k.1.1 8
reorder a@product m.1.0 m.1.1.0 m.1.1.1 k.1.0 k.1.1.0 k.1.1.1
fuse a@product m.1.0 m.1.1.0
fuse a@product m.1.0*m.1.1.0 m.1.1.1
fuse a@product m.1.0*m.1.1.0*m.1.1.1 k.1.0
fuse a@product m.1.0*m.1.1.0*m.1.1.1*k.1.0 k.1.1.0
split a@product m.1.0*m.1.1.0*m.1.1.1*k.1.0*k.1.1.0 64
reorder a@product m.1.0*m.1.1.0*m.1.1.1*k.1.0*k.1.1.0.1 m.1.0*m.1.1.0*m.1.1.1*k.1.0*k.1.1.0.0
bind a@product m.1.0*m.1.1.0*m.1.1.1*k.1.0*k.1.1.0.1
vectorize a@product k.1.1.1
unroll a@product m.1.0*m.1.1.0*m.1.1.1*k.1.0*k.1.1.0.0
reorder b@product k.1.0 k.1.1 n.1.0 n.1.1
fuse b@product n.1.0 n.1.1
fuse b@product k.1.0 k.1.1
split b@product k.1.0*k.1.1 64
reorder b@product k.1.0*k.1.1.1 k.1.0*k.1.1.0
bind b@product k.1.0*k.1.1.1
vectorize b@product n.1.0*n.1.1
unroll b@product k.1.0*k.1.1.0
pipeline a@product 3
pipeline b@product 3
)");
}

TEST(GpuMma, WarpsHaveWholeTilesAndSumsFitTheirRegisters) {
  const Space space = space_of_workload(half, "cuda:sm_80");
  EXPECT_TRUE(allows(space, warps));
  EXPECT_FALSE(allows(space, with(warps, "warps.rows=2", "warps.rows=4")));  // 8 rows each
  EXPECT_FALSE(allows(space, with(warps, "warps.columns=1", "warps.columns=2")));
  // If one warp computes 128 by 128 results, each lane has 512 accumulators.
  EXPECT_FALSE(allows(space, with(with(with(warps, "warps.rows=2", "warps.rows=1"), "block.rows=32",
                                       "block.rows=128"),
                                  "block.columns=8", "block.columns=128")));
  EXPECT_TRUE(allows(space, with(with(with(warps, "warps.columns=1", "warps.columns=4"),
                                      "block.rows=32", "block.rows=128"),
                                 "block.columns=8", "block.columns=128")));
}

TEST(GpuMma, MatchesProductsThatATileComputesExactly) {
  EXPECT_TRUE(offers(space_of_workload(half, "cuda:sm_80"), "gpu_mma"));
  EXPECT_TRUE(
      offers(space_of_workload("dense m=128 n=128 k=128 f32 fast", "cuda:sm_120"), "gpu_mma"));
  EXPECT_FALSE(offers(space_of_workload(half, "cuda:sm_75"), "gpu_mma"));
  EXPECT_FALSE(offers(space_of_workload(half, "opencl"), "gpu_mma"));
  EXPECT_FALSE(
      offers(space_of_workload("dense m=8 n=128 k=128 bf16 fast", "cuda:sm_80"), "gpu_mma"));
}

}  // namespace
}  // namespace tw::schedules
