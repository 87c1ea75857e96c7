// SPDX-License-Identifier: Apache-2.0
// A product on a GPU by the tensor cores of sm_80 and newer: the threads of a warp compute tiles of
// sums together (mma.sync).

#include "base/integer.h"
#include "schedules/strategies/gpu_tensor.h"

namespace tw::schedules {
namespace {

/// Where one product takes several instructions, they must beat the f32 lanes. The rate of tensor
/// cores halves with each doubling of the operand.
bool is_worth_it(const TensorTile& tile, const Target& target) {
  const Gpu& gpu = *target.machine.gpu;
  return tile.instructions == 1 ||
         gpu.tensor_fma * 2 / size_bytes(tile.operand) / tile.instructions > gpu.fma_lanes;
}

class GpuMmaStage : public GpuTensorStage {
 public:
  using GpuTensorStage::GpuTensorStage;

 private:
  bool fits(const GpuTensor& config) const override {
    // Two registers for each eight rows or columns, and as many for what splitting leaves.
    int64_t fragments = 0;
    for (size_t side = 0; side < product_sides; ++side) {
      const GpuProduct::Side& chosen = config.sides[side];
      fragments += chosen.block / config.warps[side] / 8 * 2 * (tile_.instructions > 1 ? 2 : 1);
      // The tiles of a block are a dimension of a box, and what is left over must be whole ones.
      if (chosen.bulk == 1 && facts_.boxes[side] == BoxNeighbours::Terms && config.tiles > 1 &&
          facts_.terms % tile_.depth != 0)
        return false;
    }
    return tensor_fits(facts_, tile_, config, fragments);
  }

  double prior(const GpuTensor& config, bool /*placed*/) const override {
    double score = tensor_prior(facts_, config);
    for (size_t side = 0; side < product_sides; ++side) {
      score += preference(config.sides[side].block, 64, 1);
      score += preference(config.warps[side], 2, 1);
    }
    score += preference(config.tiles, 2, 0.5);
    return score + (is_worth_it(tile_, compute_.target) ? far_better : -far_better);
  }
};

}  // namespace

std::unique_ptr<const StageStrategy> gpu_mma(const ComputePlan& plan, const StagePlan& stage) {
  const TensorTile* tile = tensor_tile_for(plan, stage, false);
  return tile ? std::make_unique<GpuMmaStage>(plan, stage, *tile) : nullptr;
}

}  // namespace tw::schedules
