// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the strategies that compute products by tensor tiles (tensor_tiles.h), of
// warps or of warpgroups. The side of the product that is contiguous in the output becomes the
// tile's columns, of which a lane has neighbours; the other side becomes its rows. Not thread-safe;
// const calls are.

#include <array>
#include <cstdint>
#include <string>

#include "schedules/program/tensor_tiles.h"
#include "schedules/strategies/gpu_product.h"

namespace tw::schedules {

struct GpuTensor : GpuProduct {
  std::array<int64_t, product_sides> warps = {1, 1};  ///< warps, or warpgroups, along each side
  int64_t tiles = 1;   ///< tensor tiles along the reduction in a block of it
  int64_t staged = 0;  ///< 1: results go through shared memory (cache_result)
  // Computed from these:
  int64_t own_tiles = 1;  ///< accumulator tiles of a warp, or warpgroup
};

/// Values of `copy`: the elements that a thread copies to shared memory at once.
enum TensorCopy : int64_t {
  copy_one = 0,     ///< neighbouring threads copy eight rows side by side
  copy_terms = 1,   ///< 16 bytes along the reduction
  copy_across = 2,  ///< up to 16 bytes of neighbouring rows, or columns
};

/// Number of rows of the tile, or of columns of one instruction: eight for a warpgroup's tile,
/// whose instructions have multiples of eight columns.
int64_t tile_extent(const ProductFacts& facts, const TensorTile& tile, size_t side);
/// Number of neighbours across the reduction in a warpgroup's part of a block in shared memory; 0
/// if its instruction cannot read the operand MN-major.
int64_t mn_neighbours(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                      size_t side);

/// Computes the members that depend on the choices.
void complete_tensor(const ProductFacts& facts, const TensorTile& tile, GpuTensor& config);
/// True if warps have whole tiles, blocks of the reduction are not mostly padding, and a thread's
/// accumulators leave room for `fragments` registers of factors.
bool tensor_fits(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                 int64_t fragments);
/// Heuristic prior: prefers a pipeline, an unrolled block, and copies of neighbours in memory.
double tensor_prior(const ProductFacts& facts, const GpuTensor& config);

class GpuTensorStage : public ProductStrategy<GpuTensor> {
 public:
  /// Requires: the tile can compute the stage.
  GpuTensorStage(const ComputePlan& compute, const StagePlan& plan, const TensorTile& tile);

 protected:
  const TensorTile& tile_;

 private:
  void complete(GpuTensor& config) const override { complete_tensor(facts_, tile_, config); }
  Site append_steps(const GpuTensor& config, const Site* inside, Construction& c) const override;
};

}  // namespace tw::schedules
