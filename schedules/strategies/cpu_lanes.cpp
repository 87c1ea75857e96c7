// SPDX-License-Identifier: Apache-2.0
// A reduction along contiguous elements on a CPU: the lanes of a few vectors hold partial results
// (rfactor), which are reduced in the end.

#include <algorithm>

#include "schedules/nest.h"
#include "schedules/strategies/cpu_loops.h"
#include "schedules/strategy.h"

namespace tw::schedules {
namespace {

// Partial results that are combined by straight-line code, of which LLVM makes a tree of vectors.
// As a loop they are a chain: 64 additions take as long as 4096 elements of a row.
constexpr int64_t most_unrolled = 64;

struct CpuLanes {
  int64_t vectors = 1;  ///< of partial results
  int64_t tasks = 1;    ///< outermost loops that are parallel
  // Derived from these:
  int64_t width = 1;    ///< elements of a vector
  int64_t partial = 1;  ///< number of partial results
};

class CpuLanesStage : public Configured<CpuLanes> {
 public:
  CpuLanesStage(const ComputePlan& compute, const StagePlan& plan) : Configured(compute, plan) {
    add_knob("lanes", {1, 2, 4}, &CpuLanes::vectors);
    add_knob("tasks", {1, 2, 3}, &CpuLanes::tasks);
  }

 private:
  void complete(CpuLanes& config) const override {
    config.width = vector_lanes(compute_.target, stage_);
    config.partial = std::min(config.vectors * config.width, length_);
  }

  Site append_steps(const CpuLanes& config, const Site* inside, Construction& c) const override {
    const std::string& name = plan_.name;
    const Loops outer = names_of(stage_.axes);
    const bool splits = length_ > config.width && (!outer.empty() || !inside);
    if (splits) {  // rfactor comes before all other steps of the stage
      c.uses(config.vectors);
      c.schedule.add(Rfactor{name, plan_.lane_axis, config.partial});
    }
    compute_at(c, name, inside);
    if (splits) append_partial_results(config, outer, c);
    if (outer.empty()) return inside ? Site{} : site_of(c, name);
    if (stores_another_type(compute_, name)) c.schedule.add(CacheWrite{name, outer.back()});
    if (inside) return {};
    if (splits) c.uses(config.tasks);
    parallelize(c, name, outer, splits ? static_cast<size_t>(config.tasks) : outer.size());
    return site_of(c, name);
  }

  /// Vectors of partial results for each element, in registers. Those of a reduction to a single
  /// number have no loop to be computed in: they are a stage before it.
  void append_partial_results(const CpuLanes& config, const Loops& outer, Construction& c) const {
    const std::string partial = plan_.name + ".rf";
    if (!outer.empty()) c.schedule.add(ComputeAt{partial, plan_.name, outer.back()});
    std::string lane = plan_.lane_axis + "_rf";
    Loops unrolled;
    if (config.partial > config.width) unrolled = {split_off(c, partial, lane, config.width)};
    c.schedule.add(Reorder{partial, concat({outer, names_of(stage_.reduction), unrolled, {lane}})});
    if (!outer.empty()) c.schedule.add(CacheWrite{partial, outer.back()});
    c.schedule.add(Vectorize{partial, lane});
    unroll(c, partial, unrolled);
    if (config.partial <= most_unrolled) unroll(c, plan_.name, {plan_.lane_axis + "_rf"});
  }

  const int64_t length_ = extent_of(stage_, plan_.lane_axis);
};

}  // namespace

std::unique_ptr<const StageStrategy> cpu_lanes(const ComputePlan& plan, const StagePlan& stage) {
  if (plan.target.is_gpu() || !stage.reduces || stage.scans || !stage.prefers_lanes ||
      stage.selects())
    return nullptr;
  return std::make_unique<CpuLanesStage>(plan, stage);
}

}  // namespace tw::schedules
