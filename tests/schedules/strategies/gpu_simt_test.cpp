// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

constexpr const char* product = "dense m=128 n=128 k=128 f32 fast";
constexpr const char* block =
    "out: gpu_simt block.rows=64 tile.rows=4 together.rows=4 copy.rows=0 pad.rows=0 "
    "block.columns=64 tile.columns=4 together.columns=4 copy.columns=1 pad.columns=4 stages=2 "
    "kblock=8 unroll=4 raster=1 split=1";

TEST(GpuSimt, PassesBlocksThroughSharedMemoryToTilesOfThreads) {
  EXPECT_EQ(steps_of(space_of_workload(product, "opencl"), block), R"(reorder out m n k
split out m 64
split out m.1 4
split out n 64
split out n.1 4
split out k 8
split out k.1 4
reorder out m.0 n.0 k.0 m.1.0 n.1.0 k.1.0 k.1.1 m.1.1 n.1.1
cache_write out n.0
cache_operand out 1 k.0 k.1.0 k.1.1 m.1.0 m.1.1
cache_operand out 2 k.0 k.1.0 k.1.1 n.1.0 n.1.1
parallel out m.0
parallel out n.0
bind out m.1.0
bind out n.1.0
unroll out k.1.1
vectorize out n.1.1
unroll out m.1.1
pipeline a@out 2
fuse a@out k.1.0 k.1.1
fuse a@out k.1.0*k.1.1 m.1.0
split a@out k.1.0*k.1.1*m.1.0 256
reorder a@out k.1.0*k.1.1*m.1.0.1 k.1.0*k.1.1*m.1.0.0
bind a@out k.1.0*k.1.1*m.1.0.1
vectorize a@out m.1.1
unroll a@out k.1.0*k.1.1*m.1.0.0
pipeline b@out 2
pad b@out n.1.0 4
reorder b@out n.1.0 n.1.1 k.1.0 k.1.1
fuse b@out n.1.0 n.1.1
fuse b@out n.1.0*n.1.1 k.1.0
fuse b@out n.1.0*n.1.1*k.1.0 k.1.1
split b@out n.1.0*n.1.1*k.1.0*k.1.1 256
reorder b@out n.1.0*n.1.1*k.1.0*k.1.1.1 n.1.0*n.1.1*k.1.0*k.1.1.0
bind b@out n.1.0*n.1.1*k.1.0*k.1.1.1
unroll b@out n.1.0*n.1.1*k.1.0*k.1.1.0
)");
}

TEST(GpuSimt, BlocksFitTheTarget) {
  const Space space = space_of_workload(product, "opencl");
  EXPECT_TRUE(allows(space, block));
  // A block of 16 threads is less than a warp, and 4096 threads are more than the target allows.
  EXPECT_FALSE(allows(space, with(with(with(with(block, "block.rows=64", "block.rows=8"),
                                            "tile.rows=4", "tile.rows=2"),
                                       "together.rows=4", "together.rows=2"),
                                  "block.columns=64", "block.columns=16")));
  const std::string single =
      with(with(block, "tile.rows=4 together.rows=4", "tile.rows=1 together.rows=1"),
           "tile.columns=4 together.columns=4", "tile.columns=1 together.columns=1");
  EXPECT_FALSE(allows(space, single));
  // 4 pipeline stages of 32 terms for 128 rows and 128 columns are 128 KiB of shared memory.
  const std::string deep = with(with(block, "kblock=8", "kblock=32"), "stages=2", "stages=4");
  EXPECT_FALSE(allows(space, with(with(deep, "block.rows=64", "block.rows=128"), "block.columns=64",
                                  "block.columns=128")));
  EXPECT_TRUE(allows(space, with(block, "unroll=4", "unroll=8")));
  EXPECT_FALSE(allows(space, with(with(block, "unroll=4", "unroll=8"), "kblock=8", "kblock=4")));
  // The product has two rows of blocks, which is not a multiple of raster=4.
  EXPECT_FALSE(allows(space, with(block, "raster=1", "raster=4")));
  EXPECT_TRUE(allows(space, with(block, "raster=1", "raster=2")));
}

TEST(GpuSimt, MatchesProductsOnGpus) {
  EXPECT_TRUE(offers(space_of_workload(product, "cuda:sm_75"), "gpu_simt"));
  EXPECT_TRUE(offers(space_of_workload(product, "cuda:sm_80"), "gpu_simt"));
  EXPECT_FALSE(offers(space_of_workload(product, "x86-64-v3"), "gpu_simt"));
  EXPECT_FALSE(offers(space_of_workload("gelu rows=64 cols=100 f32 fast", "opencl"), "gpu_simt"));
}

}  // namespace
}  // namespace tw::schedules
