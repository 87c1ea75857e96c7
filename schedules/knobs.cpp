// SPDX-License-Identifier: Apache-2.0
#include "schedules/knobs.h"

#include <algorithm>

#include "base/integer.h"
#include "schedules/gpu_space.h"
#include "schedules/stage_plan.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

/// Sizes for a register tile along an axis: those that waste at most a tenth of the work.
std::vector<int64_t> tile_sizes(int64_t extent, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t t = 1; t <= std::min(extent, most); ++t) {
    const double efficiency =
        static_cast<double>(extent) / static_cast<double>(round_up(extent, t));
    if (efficiency >= 0.9 || t == 1) sizes.push_back(t);
  }
  return sizes;
}

/// Powers of two up to the extent, divisors near them preferred, and the extent itself.
std::vector<int64_t> block_sizes(int64_t extent, int64_t least, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t b = least; b <= std::min(extent, most); ++b)
    if (extent % b == 0 && (b % 4 == 0 || b == extent || extent < 16)) sizes.push_back(b);
  if (sizes.empty())
    for (int64_t b = least; b <= std::min(extent, most); b *= 2) sizes.push_back(b);
  if (extent <= most && (sizes.empty() || sizes.back() != extent)) sizes.push_back(extent);
  return sizes;
}

void add_tiled(const StagePlan& plan, const Stage& stage, Knobs& knobs) {
  const std::string p = plan.name + ".";
  std::vector<int64_t> choices;
  for (size_t i = 0; i < plan.vector_axes.size(); ++i) choices.push_back(static_cast<int64_t>(i));
  knobs.add(p + "vector", choices);
  knobs.add(p + "vectors", {1, 2, 3, 4, 6, 8});
  for (const std::string& axis : plan.tile_axes)
    knobs.add(p + "tile." + axis, tile_sizes(extent_of(stage, axis), 28));
  if (!plan.main_reduction.empty()) {
    const int64_t extent = extent_of(stage, plan.main_reduction);
    knobs.add(p + "block", block_sizes(extent, std::min<int64_t>(4, extent), 512));
    knobs.add(p + "unroll", {1, 2, 4, 8});
    knobs.add(p + "kblock", {0, 2, 4, 8, 16});
  }
  if (stage.reduction.size() > 1) {
    knobs.add(p + "taps", {0, 1, 2});  // unrolled window axes: none, the innermost, all
    knobs.add(p + "reduction_order", {0, 1, 2});
  }
  knobs.add(p + "outer_order", {0, 1, 2});
  knobs.add(p + "tasks", {1, 2, 3, 4});
  knobs.add(p + "layout.in", {0, 1, 2});  // as declared, blocked, innermost
  knobs.add(p + "layout.out", {0, 1, 2});
}

void add_lanes(const StagePlan& plan, const Stage& stage, Knobs& knobs) {
  const std::string p = plan.name + ".";
  knobs.add(p + "lanes", {1, 2, 4});  // vectors of partial results
  knobs.add(p + "tile", tile_sizes(stage.axes.empty() ? 1 : stage.axes.back().extent, 16));
  knobs.add(p + "tasks", {1, 2, 3});
}

void add_elementwise(const StagePlan& plan, const Stage& stage, Knobs& knobs) {
  const std::string p = plan.name + ".";
  const int64_t rows = stage.axes.size() > 1 ? stage.axes[stage.axes.size() - 2].extent : 1;
  std::vector<int64_t> tiles;
  for (const int64_t t : {1, 2, 4, 8, 16, 32, 64})
    if (t <= rows) tiles.push_back(t);
  knobs.add(p + "tile", tiles);
  knobs.add(p + "vectors", {1, 2, 4});
  knobs.add(p + "columns", {0, 64, 128, 256, 512});
  knobs.add(p + "tasks", {1, 2, 3});
}

/// Copies of the accumulation that unrolled window axes make.
int64_t unrolled_taps(const StagePlan& plan, const Stage& stage, int64_t choice) {
  int64_t taps = 1;
  for (size_t i = stage.reduction.size(); i > 0 && choice > 0; --i) {
    const Axis& axis = stage.reduction[i - 1];
    if (axis.name == plan.main_reduction) continue;
    taps *= axis.extent;
    if (choice == 1) break;
  }
  return taps;
}

bool is_sensible_tile(const ComputePlan& compute, const StagePlan& plan, const Knobs& knobs,
                      const Point& point) {
  const auto value = [&](const std::string& name, int64_t otherwise = 0) {
    return knobs.value(point, plan.name + "." + name, otherwise);
  };
  const Stage& stage = compute.stage(plan);
  const VectorAxis& vector = plan.vector_axes[static_cast<size_t>(value("vector"))];
  const int64_t extent = extent_of(stage, vector.axis), width = lanes(compute.target, stage);
  const int64_t vectors = value("vectors");
  if (vectors > 1 && (vectors - 1) * width >= extent) return false;
  int64_t accumulators = vectors;
  for (const std::string& axis : plan.tile_axes)
    if (axis != vector.axis) accumulators *= value("tile." + axis, 1);
  if (accumulators > compute.target.machine.core.vector_registers - 2) return false;
  const int64_t block = value("block", 1), unroll = value("unroll", 1);
  if (unroll > block) return false;
  const int64_t taps = unrolled_taps(plan, stage, value("taps"));
  // The multiply-accumulates of a tile, and what sets its accumulators up and writes them.
  if (accumulators * (taps * unroll + 2) > most_statements_searched) return false;
  const int64_t kblock = value("kblock");
  return kblock == 0 || kblock * block < extent_of(stage, plan.main_reduction);
}

}  // namespace

Limits limits_searched(const Target& target) {
  Limits limits = limits_of(target);
  limits.unrolled_statements =
      target.is_gpu() ? most_gpu_statements_searched : most_statements_searched;
  return limits;
}

void Knobs::add(const std::string& name, std::vector<int64_t> values) {
  if (values.empty()) values = {1};  // an extent of 0 leaves nothing to choose from
  places_[name] = knobs_.size();
  knobs_.push_back({name, std::move(values)});
}

std::optional<size_t> Knobs::find(const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

int64_t Knobs::value(const Point& point, const std::string& name, int64_t otherwise) const {
  const std::optional<size_t> place = find(name);
  return place ? knobs_[*place].values[static_cast<size_t>(point[*place])] : otherwise;
}

Knobs knobs_of(const ComputePlan& plan) {
  if (plan.target.is_gpu()) return gpu_knobs_of(plan);
  Knobs knobs;
  for (const StagePlan& stage : plan.stages) {
    // 0: a phase of its own, 1: in its owner's loop
    if (stage.placeable) knobs.add(stage.name + ".place", {0, 1});
    switch (stage.role) {
      case Role::Tiled:
        add_tiled(stage, plan.stage(stage), knobs);
        break;
      case Role::Lanes:
        add_lanes(stage, plan.stage(stage), knobs);
        break;
      case Role::Elementwise:
        add_elementwise(stage, plan.stage(stage), knobs);
        break;
    }
  }
  return knobs;
}

bool meets_constraints(const ComputePlan& plan, const Knobs& knobs, const Point& point) {
  return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& stage) {
    return meets_constraints(plan, stage, knobs, point);
  });
}

bool meets_constraints(const ComputePlan& plan, const StagePlan& stage, const Knobs& knobs,
                       const Point& point) {
  if (plan.target.is_gpu()) return meets_gpu_constraints(plan, stage, knobs, point);
  return stage.role != Role::Tiled || is_sensible_tile(plan, stage, knobs, point);
}

}  // namespace tw::schedules
