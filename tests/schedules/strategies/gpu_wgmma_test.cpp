// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

constexpr const char* half_product = "dense m=256 n=256 k=256 bf16 fast";
constexpr const char* warpgroups =
    "product: gpu_wgmma warps.rows=2 warps.columns=1 tiles=4 block.rows=128 copy.rows=0 "
    "block.columns=128 copy.columns=0 stages=2 copies=2 unroll=4 staged=0 raster=1 split=1 "
    "resident=1";

TEST(GpuWgmma, WarpgroupsReadSwizzledBlocksThatTheCopyEngineMoves) {
  EXPECT_EQ(steps_of(space_of_workload(half_product, "cuda:sm_90a"), warpgroups),
            R"(epilogue out product
reorder product m n k
split product m 128
split product m.1 64
split product m.1.1 16
split product m.1.1.1 8
split product n 128
split product n.1 64
split product n.1.1 8
split product n.1.1.1 2
split product k 64
split product k.1 16
reorder product m.0 n.0 k.0 m.1.0 m.1.1.0 m.1.1.1.1 n.1.1.1.0 k.1.0 m.1.1.1.0 n.1.0 n.1.1.0 n.1.1.1.1 k.1.1
cache_write product n.0
cache_operand product 1 k.0 m.1.0 m.1.1.0 m.1.1.1.0 m.1.1.1.1 k.1.0 k.1.1
swizzle a@product 128
cache_operand product 2 k.0 n.1.0 k.1.0 k.1.1 n.1.1.0 n.1.1.1.0 n.1.1.1.1
swizzle b@product 128
parallel product m.0
parallel product n.0
bind product m.1.0
bind product m.1.1.0
bind product m.1.1.1.1
bind product n.1.1.1.0
unroll product k.1.0
tensorize product m.1.1.1.0 wgmma_m64k16_bf16
fuse a@product m.1.0 m.1.1.0
fuse a@product m.1.0*m.1.1.0 m.1.1.1.0
fuse a@product m.1.0*m.1.1.0*m.1.1.1.0 m.1.1.1.1
fuse a@product k.1.0 k.1.1
fuse b@product n.1.1.0 n.1.1.1.0
fuse b@product n.1.1.0*n.1.1.1.0 n.1.1.1.1
fuse b@product k.1.0 k.1.1
pipeline a@product 2
pipeline b@product 2
bulk a@product
bulk b@product
specialise product
)");
}

TEST(GpuWgmma, BlocksAreWholeInstructionsAndFitTheTarget) {
  const Space space = space_of_workload(half_product, "cuda:sm_90a");
  EXPECT_TRUE(allows(space, warpgroups));
  EXPECT_FALSE(allows(space, with(warpgroups, "block.rows=128", "block.rows=64")));
  EXPECT_FALSE(allows(space, with(warpgroups, "stages=2", "stages=1")));  // no pipeline to ask for
  EXPECT_TRUE(allows(space, with(warpgroups, "split=1", "split=2")));
  // If 264 terms are split into two parts, the second begins at term 132. That is byte 264 of a
  // row, no multiple of 16.
  const Space uneven = space_of_workload("dense m=256 n=256 k=264 bf16 fast", "cuda:sm_90a");
  EXPECT_TRUE(allows(uneven, warpgroups));
  EXPECT_FALSE(allows(uneven, with(warpgroups, "split=1", "split=2")));
  // Producers need boxes for both operands. Rows of b have 258 elements, 516 bytes, no multiple of
  // 16.
  const Space ragged = space_of_workload("dense m=256 n=258 k=256 bf16 fast", "cuda:sm_90a");
  EXPECT_FALSE(allows(ragged, warpgroups));
  EXPECT_TRUE(allows(ragged, with(warpgroups, "copies=2", "copies=1")));
  // If one warpgroup computes 128 by 256 results, each thread needs 256 registers for accumulators.
  EXPECT_FALSE(allows(space, with(with(warpgroups, "warps.rows=2", "warps.rows=1"),
                                  "block.columns=128", "block.columns=256")));
}

TEST(GpuWgmma, MatchesLargeProductsOnTheOneArchitecture) {
  EXPECT_TRUE(offers(space_of_workload(half_product, "cuda:sm_90a"), "gpu_wgmma"));
  EXPECT_FALSE(offers(space_of_workload(half_product, "cuda:sm_90"), "gpu_wgmma"));
  EXPECT_FALSE(offers(space_of_workload(half_product, "cuda:sm_120"), "gpu_wgmma"));
  EXPECT_FALSE(
      offers(space_of_workload("dense m=32 n=128 k=128 bf16 fast", "cuda:sm_90a"), "gpu_wgmma"));
  // The instruction would drop bits of factors of f32.
  EXPECT_FALSE(
      offers(space_of_workload("dense m=256 n=256 k=256 f32 fast", "cuda:sm_90a"), "gpu_wgmma"));
}

}  // namespace
}  // namespace tw::schedules
