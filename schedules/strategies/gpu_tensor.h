// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the strategies that compute products by tensor tiles (tensor_tiles.h), of
// warps or of warpgroups. The side of the product that is contiguous in the output is the tile's
// columns, of which a lane has neighbours; the other side is its rows. Not thread-safe, but for
// what is const.

#include <array>
#include <cstdint>
#include <string>

#include "schedules/strategies/gpu_product.h"
#include "schedules/tensor_tiles.h"

namespace tw::schedules {

struct GpuTensor : GpuProduct {
  std::array<int64_t, product_sides> warps = {1, 1};  ///< or warpgroups, along each side
  int64_t tiles = 1;  ///< tensor tiles along the reduction in a block of it
  // Derived from these:
  int64_t own_tiles = 1;  ///< tensor tiles of a warp, or warpgroup, that a term adds to
};

/// Values of `copy`: how many elements a thread copies to shared memory at once.
enum TensorCopy : int64_t {
  copy_one = 0,     ///< neighbouring threads copy eight rows side by side
  copy_terms = 1,   ///< 16 bytes along the reduction
  copy_across = 2,  ///< up to 16 bytes of neighbouring rows, or columns
};

/// Rows of the tile; columns of one of its instructions, those of a warpgroup's in eights.
int64_t tile_extent(const ProductFacts& facts, const TensorTile& tile, size_t side);
/// Neighbours across the reduction in shared memory, of what a warpgroup has of a block; 0 where
/// its instruction cannot read it so.
int64_t mn_neighbours(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                      size_t side);

/// Computes what follows from the choices.
void complete_tensor(const ProductFacts& facts, const TensorTile& tile, GpuTensor& config);
/// Warps have whole tiles, blocks of the reduction are not mostly padding, and a thread's sums
/// leave room for `fragments` registers of factors.
bool tensor_fits(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                 int64_t fragments);
/// Prefers a pipeline, an unrolled block, and copies of neighbours in memory.
double tensor_prior(const ProductFacts& facts, const GpuTensor& config);

class GpuTensorStage : public ProductStrategy<GpuTensor> {
 public:
  /// Requires: a tile for the stage.
  GpuTensorStage(const ComputePlan& compute, const StagePlan& plan, const TensorTile& tile);

 protected:
  const TensorTile& tile_;

 private:
  void complete(GpuTensor& config) const override { complete_tensor(facts_, tile_, config); }
  Site append_steps(const GpuTensor& config, const Site* inside, Construction& c) const override;
};

}  // namespace tw::schedules
