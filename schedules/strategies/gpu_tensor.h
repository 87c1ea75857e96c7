// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts that strategies for tensor tiles (tensor_tiles.h) of warps or warpgroups share. The
// side of the product along which the output is contiguous becomes the columns of tiles, because
// each lane has neighbouring columns of a tile. The other side becomes the rows. Not thread-safe,
// but const calls are.

#include <array>
#include <cstdint>
#include <string>

#include "schedules/program/tensor_tiles.h"
#include "schedules/strategies/gpu_product.h"

namespace tw::schedules {

struct GpuTensor : GpuProduct {
  /// number of warps, or of warpgroups, along each side of a block
  std::array<int64_t, product_sides> warps = {1, 1};
  int64_t tiles = 1;   ///< number of tensor tiles along the terms of a block
  int64_t staged = 0;  ///< 1 if results are copied through shared memory (cache_result)
  // Computed from the members above:
  int64_t own_tiles = 1;  ///< number of tensor tiles of accumulators that a warp, or a warpgroup,
                          ///< has
};

/// Values of the knob `copy`, which decides which elements a thread copies to shared memory at
/// once.
enum TensorCopy : int64_t {
  copy_one = 0,     ///< one element; neighbouring threads copy neighbouring rows
  copy_terms = 1,   ///< 16 bytes along the reduction
  copy_across = 2,  ///< up to 16 bytes along rows, or columns, of one term
};

/// Returns the number of rows of the tile for the side of the rows. For the side of the columns,
/// returns the number of columns of the smallest instruction. This number is eight for a
/// warpgroup's tile too, because its instructions exist for all multiples of eight columns.
int64_t tile_extent(const ProductFacts& facts, const TensorTile& tile, size_t side);
/// Returns the number of neighbouring rows (or columns) in a line of shared memory if a warpgroup's
/// instruction reads the operand MN-major (tensor_tiles.h): 64, 32 or 16. Returns 0 if the
/// instruction cannot read the operand MN-major.
int64_t mn_neighbours(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                      size_t side);

/// Computes the members of the configuration that depend on members that knobs set.
void complete_tensor(const ProductFacts& facts, const TensorTile& tile, GpuTensor& config);
/// True if the configuration can be used. In addition to the conditions of product_fits(), warps
/// must have whole tiles, blocks of the reduction must not be mostly padding, a block of terms must
/// not need too many instructions, and a thread's registers must suffice for its accumulators and
/// for `fragments` registers that hold elements of operands.
bool tensor_fits(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                 int64_t fragments);
/// Returns the heuristic prior. It prefers a pipeline of two or three stages, an unrolled block,
/// results that are copied through shared memory, and copies of elements that are neighbours in
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
