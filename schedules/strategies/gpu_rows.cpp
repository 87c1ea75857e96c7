// SPDX-License-Identifier: Apache-2.0
#include "schedules/strategies/gpu_rows.h"

#include <algorithm>
#include <set>

#include "schedules/nest.h"

namespace tw::schedules {
namespace {

/// True if the loops of the stage run over a row of `elements` elements: the last loop has this
/// extent, and all other loops have one iteration.
bool runs_over_row(const StageNest* stage, int64_t elements) {
  if (!stage || stage->loops.empty() || stage->loops.back().extent != elements) return false;
  return std::all_of(stage->loops.begin(), stage->loops.end() - 1,
                     [](const NestLoop& loop) { return loop.extent == 1; });
}

/// Divides the elements of the stage's row among the threads as the site's stage does, and keeps
/// them in registers. Requires: runs_over_row() is true for the stage.
void keep_row(Construction& c, const std::string& stage, const Site& site) {
  std::string thread = c.find(stage)->loops.back().name, lanes;
  const std::string tile = split_off(c, stage, thread, site.threads * site.vector);
  if (site.vector > 1) {
    lanes = thread;
    thread = split_off(c, stage, lanes, site.vector);
  }
  Loops order = {thread, tile};
  if (!lanes.empty()) order.push_back(lanes);
  c.schedule.add(Reorder{stage, order});
  c.schedule.add(Bind{stage, thread});
  c.schedule.add(Unroll{stage, tile});
  if (!lanes.empty()) c.schedule.add(Vectorize{stage, lanes});
  c.schedule.add(StoreIn{stage});
}

/// True if the stage is the site's stage or is computed inside of it.
bool is_at(const Nest& nest, const StageNest& stage, const Site& site) {
  const StageNest* s = &stage;
  while (s && s->at) s = nest.find(s->at->consumer);
  return s && s->stage.name == site.stage;
}

/// Returns the axis of a stage at the site along which its row lies, if the threads divide this
/// axis as the site says; empty otherwise.
std::string row_axis_of(const Construction& c, const dsl::Stage& stage, const Site& site) {
  if (stage.name == site.stage) return site.row_axis;
  if (c.find(stage.name)->stored_in) return stage.axes.back().name;
  const auto& plans = c.plan().stages;
  const auto plan = std::ranges::find(plans, stage.name, &StagePlan::name);
  const bool reduces = plan != plans.end() && plan->reduces_rows && !stage.axes.empty() &&
                       stage.reduction.back().extent == site.row;
  return reduces ? plan->lane_axis : "";
}

/// True if all stages at the site read element j of a row of the tensor where they compute their
/// own element j, so that the thread which stores the element is the one that reads it.
bool is_read_along_row(const Construction& c, const std::string& tensor, const Site& site) {
  bool along = true;
  const auto check = [&](const dsl::Expr& body, const std::string& axis) {
    for_each_read(body, [&](const dsl::Read& r) {
      if (r.tensor != tensor) return;
      const dsl::Var* v = r.indices.empty() ? nullptr : r.indices.back().as<dsl::Var>();
      along &= v && v->name == axis;
    });
  };
  for (const dsl::Stage& stage : c.plan().compute.stages) {
    const StageNest* nest = c.find(stage.name);
    if (!nest || !is_at(c.schedule.nest(), *nest, site)) continue;
    check(stage.body, row_axis_of(c, stage, site));
    if (nest->epilogue) check(nest->epilogue->body, "");
  }
  return along;
}

/// Returns the stages at the site that read the tensor.
std::vector<std::string> readers_at(const Nest& nest, const std::string& tensor, const Site& site) {
  std::vector<std::string> names;
  for (const StageNest& stage : nest.stages)
    if (is_at(nest, stage, site) && reads(stage, tensor)) names.push_back(stage.stage.name);
  return names;
}

/// Schedules, at the site, a stage whose result is a single number. The threads of the block
/// compute partial results, and a warp combines them. One thread computes the result if the
/// reduction is too short for a warp.
void place_number(Construction& c, const StagePlan& plan, const Site& site) {
  const std::string axis = shared_axis(c.plan(), plan);
  if (!axis.empty()) c.schedule.add(Rfactor{plan.name, axis, site.threads});
  c.schedule.add(ComputeAt{plan.name, site.stage, site.loop});
  if (axis.empty()) return;
  const std::string partial = plan.name + ".rf", lane = axis + "_rf";
  c.schedule.add(ComputeAt{partial, site.stage, site.loop});
  c.schedule.add(CacheWrite{partial, lane});
  c.schedule.add(Bind{partial, lane});
  combine_number(c, plan.name, lane);
}

}  // namespace

std::string shared_axis(const ComputePlan& compute, const StagePlan& plan) {
  if (plan.is_product()) return "";
  if (plan.reduces_rows) return plan.lane_axis;
  const dsl::Stage& stage = compute.stage(plan);
  if (!stage.axes.empty() || plan.lane_axis.empty()) return "";
  if (points_of(stage, names_of(stage.reduction)) < warp_threads) return "";
  return std::ranges::max_element(stage.reduction, {}, &dsl::Axis::extent)->name;
}

void combine_number(Construction& c, const std::string& stage, const std::string& lane) {
  if (c.schedule.error()) return;
  std::string terms = lane;
  const std::string around = split_off(c, stage, terms, c.find(stage)->loops.back().extent);
  c.schedule.add(CacheWrite{stage, around});
  c.schedule.add(Bind{stage, terms});
}

void place_in_block(Construction& c, const StagePlan& plan, const Site& site) {
  const dsl::Stage& stage = c.plan().stage(plan);
  if (stage.axes.empty()) return place_number(c, plan, site);
  if (plan.reduces_rows)
    c.schedule.add(Rfactor{plan.name, plan.lane_axis, site.threads * site.vector});
  if (plan.reduces_rows && site.vector > 1)
    c.schedule.add(Rfactor{plan.name, plan.lane_axis + "_rf", site.threads, Partition::Blocks});
  c.schedule.add(ComputeAt{plan.name, site.stage, site.loop});
  if (plan.reduces_rows) return append_partial_sums(c, plan, site);
  if (site.row > 0 && stage.reduction.empty() && runs_over_row(c.find(plan.name), site.row) &&
      is_read_along_row(c, plan.name, site))
    return keep_row(c, plan.name, site);
  std::string thread = fuse_all(c, plan.name, names_of(stage.axes));
  const std::string repeats = split_off(c, plan.name, thread, site.threads);
  c.schedule.add(Reorder{plan.name, {thread, repeats}});
  if (!stage.reduction.empty()) c.schedule.add(CacheWrite{plan.name, repeats});
  c.schedule.add(Bind{plan.name, thread});
}

void append_partial_sums(Construction& c, const StagePlan& plan, const Site& site) {
  const dsl::Stage& stage = c.plan().stage(plan);
  const Loops axes = names_of(stage.axes), reduction = names_of(stage.reduction);
  std::string partial = plan.name + ".rf", lane = plan.lane_axis + "_rf";
  Loops terms = reduction;
  if (site.vector > 1) {  // the lanes of a thread have sums of their own, which the thread adds up
    terms = {lane};
    partial += ".rf";
    lane += "_rf";
  }
  c.schedule.add(ComputeAt{partial, plan.name, axes.back()});
  c.schedule.add(Reorder{partial, concat({axes, {lane}, terms})});
  c.schedule.add(CacheWrite{partial, lane});
  c.schedule.add(Bind{partial, lane});
  std::string sums = partial;
  if (site.vector > 1) {
    unroll(c, partial, terms);
    sums = plan.name + ".rf";
    c.schedule.add(ComputeAt{sums, partial, lane});
    c.schedule.add(Reorder{sums, concat({axes, reduction, terms})});
    c.schedule.add(Vectorize{sums, terms.front()});
  }
  if (stage.reduction.back().extent == site.row) c.schedule.add(Unroll{sums, plan.lane_axis});
  c.schedule.add(CacheWrite{plan.name, axes.back()});
  c.schedule.add(Bind{plan.name, lane});
}

void cache_rows(Construction& c, const Site& site) {
  if (c.schedule.error()) return;
  std::set<std::string> tensors;
  for (const StageNest& stage : c.schedule.nest().stages)
    if (is_at(c.schedule.nest(), stage, site))
      for_each_read(stage.stage.body, [&](const dsl::Read& r) { tensors.insert(r.tensor); });
  for (const std::string& tensor : tensors) {
    const StageNest* producer = c.schedule.nest().find(tensor);
    if (producer && producer->at) continue;
    const Loops readers = readers_at(c.schedule.nest(), tensor, site);
    if (readers.size() < 2 || !is_read_along_row(c, tensor, site)) continue;
    const std::string copy = tensor + "@" + site.stage;
    Construction cached = c;
    cached.schedule.add(CacheRead{tensor, site.stage, site.loop, readers});
    if (!runs_over_row(cached.find(copy), site.row)) continue;
    c = std::move(cached);
    keep_row(c, copy, site);
  }
}

Site rows_of(const StagePlan& plan, const std::string& loop, int64_t threads) {
  return {plan.name, plan.placeable() ? "" : loop, threads};
}

}  // namespace tw::schedules
