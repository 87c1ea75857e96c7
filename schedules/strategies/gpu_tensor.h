// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts that strategies share which compute products by tensor tiles (tensor_tiles.h) of warps
// or warpgroups. The side of the product that is contiguous in the output becomes the columns of
// tiles, in which a lane has neighbours. The other side becomes the rows. Not thread-safe, but
// const calls are.

#include <array>
#include <cstdint>
#include <string>

#include "schedules/program/tensor_tiles.h"
#include "schedules/strategies/gpu_product.h"

namespace tw::schedules {

struct GpuTensor : GpuProduct {
  /// number of warps, or warpgroups, along each side
  std::array<int64_t, product_sides> warps = {1, 1};
  int64_t tiles = 1;   ///< number of tensor tiles along the reduction in a block
  int64_t staged = 0;  ///< 1 if results go through shared memory (cache_result)
  // Computed from the members above:
  int64_t own_tiles = 1;  ///< number of accumulator tiles of a warp, or warpgroup
};

/// Values of `copy`: which elements a thread copies to shared memory at once.
enum TensorCopy : int64_t {
  copy_one = 0,     ///< one element; neighbouring threads copy eight rows side by side
  copy_terms = 1,   ///< 16 bytes along the reduction
  copy_across = 2,  ///< up to 16 bytes of neighbouring rows, or columns
};

/// Number of rows of the tile, or number of columns of its smallest instruction: eight for a
/// warpgroup's tile, whose instructions exist for multiples of eight columns.
int64_t tile_extent(const ProductFacts& facts, const TensorTile& tile, size_t side);
/// Number of contiguous neighbours across the reduction in a warpgroup's part of a block in shared
/// memory; 0 if the instruction cannot read the operand MN-major.
int64_t mn_neighbours(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                      size_t side);

/// Computes the members that depend on those that knobs set.
void complete_tensor(const ProductFacts& facts, const TensorTile& tile, GpuTensor& config);
/// True if the configuration can be used: warps have whole tiles, blocks of the reduction are not
/// mostly padding, and a thread's accumulators leave room for `fragments` registers of factors.
bool tensor_fits(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                 int64_t fragments);
/// The heuristic prior. It prefers a pipeline, an unrolled block, and copies of neighbours in
/// memory.
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
