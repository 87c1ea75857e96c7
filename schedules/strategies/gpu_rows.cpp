// SPDX-License-Identifier: Apache-2.0
#include "schedules/strategies/gpu_rows.h"

#include "schedules/nest.h"

namespace tw::schedules {

void place_in_block(Construction& c, const StagePlan& plan, const Site& site) {
  const dsl::Stage& stage = c.plan().stage(plan);
  const bool splits = plan.reduces_rows && !stage.axes.empty();
  if (splits) c.schedule.add(Rfactor{plan.name, plan.lane_axis, site.threads});
  c.schedule.add(ComputeAt{plan.name, site.stage, site.loop});
  if (splits) return append_partial_sums(c, plan);
  if (stage.axes.empty()) return;  // a single number needs no loops
  std::string thread = fuse_all(c, plan.name, names_of(stage.axes));
  const std::string repeats = split_off(c, plan.name, thread, site.threads);
  c.schedule.add(Reorder{plan.name, {thread, repeats}});
  if (!stage.reduction.empty()) c.schedule.add(CacheWrite{plan.name, repeats});
  c.schedule.add(Bind{plan.name, thread});
}

void append_partial_sums(Construction& c, const StagePlan& plan) {
  const dsl::Stage& stage = c.plan().stage(plan);
  const std::string partial = plan.name + ".rf", lane = plan.lane_axis + "_rf";
  const Loops axes = names_of(stage.axes);
  c.schedule.add(ComputeAt{partial, plan.name, axes.back()});
  c.schedule.add(Reorder{partial, concat({axes, {lane}, names_of(stage.reduction)})});
  c.schedule.add(CacheWrite{partial, lane});
  c.schedule.add(Bind{partial, lane});
  c.schedule.add(CacheWrite{plan.name, axes.back()});
  c.schedule.add(Bind{plan.name, lane});
}

Site rows_of(const StagePlan& plan, const std::string& loop, int64_t threads) {
  return {plan.name, plan.placeable() ? "" : loop, threads};
}

}  // namespace tw::schedules
