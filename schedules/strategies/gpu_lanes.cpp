// SPDX-License-Identifier: Apache-2.0
// Strategy for a reduction along contiguous elements on a GPU. Each block of threads reduces a row,
// which is split over the block's threads (rfactor). Producers may be computed in the block.

#include <cmath>

#include "schedules/program/threads.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/gpu_rows.h"

namespace tw::schedules {
namespace {

struct GpuLanes {
  int64_t threads = warp_threads;  ///< threads of a block
};

class GpuLanesStage : public Configured<GpuLanes> {
 public:
  GpuLanesStage(const ComputePlan& compute, const StagePlan& plan) : Configured(compute, plan) {
    add_knob("threads",
             powers(extent_of(stage_, plan_.lane_axis), warp_threads,
                    compute_.target.machine.gpu->block_threads),
             &GpuLanes::threads);
  }
  bool can_be_climbed() const override { return true; }

 private:
  double prior(const GpuLanes& config, bool placed) const override {
    return placed - std::abs(std::log2(static_cast<double>(config.threads) / 128));
  }

  Site append_steps(const GpuLanes& config, const Site* inside, Construction& c) const override {
    if (inside) {
      place_in_block(c, plan_, *inside);
      return {};
    }
    c.uses(config.threads);
    c.schedule.add(Rfactor{plan_.name, plan_.lane_axis, config.threads});
    const Site site = rows_of(plan_, stage_.axes.back().name, config.threads);
    append_partial_sums(c, plan_, site);
    for (const dsl::Axis& axis : stage_.axes) c.schedule.add(Parallel{plan_.name, axis.name});
    return site;
  }
};

}  // namespace

std::unique_ptr<const StageStrategy> gpu_lanes(const ComputePlan& plan, const StagePlan& stage) {
  if (!plan.target.is_gpu() || plan.stage(stage).axes.empty() || stage.is_product() ||
      !stage.reduces_rows)
    return nullptr;
  return std::make_unique<GpuLanesStage>(plan, stage);
}

}  // namespace tw::schedules
