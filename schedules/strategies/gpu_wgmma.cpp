// SPDX-License-Identifier: Apache-2.0
// Strategy for a product on the tensor cores of sm_90a: the threads of a warpgroup compute a tile
// of sums together, and the instruction reads its factors from shared memory (wgmma).

#include "schedules/strategies/gpu_tensor.h"

namespace tw::schedules {
namespace {

class GpuWgmmaStage : public GpuTensorStage {
 public:
  using GpuTensorStage::GpuTensorStage;

 private:
  bool fits(const GpuTensor& config) const override {
    const size_t columns = facts_.inner();
    if (!has_columns(tile_, config.sides[columns].block / config.warps[columns])) return false;
    for (size_t side = 0; side < product_sides; ++side)
      if (!groups_fit(config, side)) return false;
    return tensor_fits(facts_, tile_, config, 0);
  }

  /// True if the rows that a TMA copy moves are whole groups of neighbours. Groups are a dimension
  /// of the box, so the last group of the operand must be complete too.
  bool groups_fit(const GpuTensor& config, size_t side) const {
    const GpuProduct::Side& chosen = config.sides[side];
    if (!chosen.is_box || facts_.boxes[side] != TmaNeighbours::Rows) return true;
    const int64_t group = mn_neighbours(facts_, tile_, config, side);
    return group > 0 && (chosen.block <= group || facts_.extents[side] % group == 0);
  }

  /// Returns the heuristic prior. It prefers two warpgroups along the rows, and operand rows of 128
  /// bytes. It also prefers copies by TMA and by producers, because warpgroups then issue only
  /// tensor instructions. It rates this strategy above tiles of warps.
  double prior(const GpuTensor& config, bool /*placed*/) const override {
    double score = tensor_prior(facts_, config) + 2 * far_better;
    for (size_t side = 0; side < product_sides; ++side) {
      score += preference(config.sides[side].block, 128, 1);
      score += preference(config.warps[side], side == facts_.outer() ? 2 : 1, 1);
    }
    return score + preference(config.tiles, 4, 1) + static_cast<double>(config.copies);
  }
};

}  // namespace

std::unique_ptr<const StageStrategy> gpu_wgmma(const ComputePlan& plan, const StagePlan& stage) {
  const TensorTile* tile = tensor_tile_for(plan, stage, true);
  return tile ? std::make_unique<GpuWgmmaStage>(plan, stage, *tile) : nullptr;
}

}  // namespace tw::schedules
