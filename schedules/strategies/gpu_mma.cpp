// SPDX-License-Identifier: Apache-2.0
// Strategy for a product on the tensor cores of sm_80 and newer GPUs: the threads of a warp compute
// tiles of sums together (mma.sync).

#include "base/integer.h"
#include "schedules/strategies/gpu_tensor.h"

namespace tw::schedules {
namespace {

/// True if the tile's instructions are faster than scalar f32 multiply-adds. They may be slower
/// only if one product takes several instructions.
bool is_worth_it(const TensorTile& tile, const Target& target) {
  const Gpu& gpu = *target.machine.gpu;
  return tile.instructions == 1 || multiply_adds(tile, gpu) > gpu.fma_lanes;
}

class GpuMmaStage : public GpuTensorStage {
 public:
  using GpuTensorStage::GpuTensorStage;

 private:
  bool fits(const GpuTensor& config) const override {
    // The fragment of an operand takes two registers for each eight rows or columns, and twice as
    // many if f32 is split into two parts.
    int64_t fragments = 0;
    for (size_t side = 0; side < product_sides; ++side) {
      const GpuProduct::Side& chosen = config.sides[side];
      fragments += chosen.block / config.warps[side] / 8 * 2 * (tile_.instructions > 1 ? 2 : 1);
      // The tiles of a block of terms are a dimension of the TMA box, so the last block must
      // consist of whole tiles too.
      if (chosen.is_box && facts_.boxes[side] == TmaNeighbours::Terms && config.tiles > 1 &&
          config.length % tile_.depth != 0)
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
    score += preference(config.tiles, 2, 0.5) - static_cast<double>(config.copies);
    return score + (is_worth_it(tile_, compute_.target) ? far_better : -far_better);
  }
};

}  // namespace

std::unique_ptr<const StageStrategy> gpu_mma(const ComputePlan& plan, const StagePlan& stage) {
  const TensorTile* tile = tensor_tile_for(plan, stage, false);
  return tile ? std::make_unique<GpuMmaStage>(plan, stage, *tile) : nullptr;
}

}  // namespace tw::schedules
