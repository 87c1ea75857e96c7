// SPDX-License-Identifier: Apache-2.0
#include "schedules/construction.h"

#include <algorithm>
#include <map>

#include "base/integer.h"
#include "schedules/gpu_space.h"
#include "schedules/nest.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

Construction::Construction(const ComputePlan& plan, const Knobs& knobs, const Point& point)
    : schedule(plan.prologue), plan_(&plan), knobs_(&knobs), point_(&point) {}

int64_t Construction::value(const StagePlan& stage, const std::string& name, int64_t otherwise) {
  const std::optional<size_t> knob = knobs_->find(stage.name + "." + name);
  if (!knob) return otherwise;
  const bool is_first = std::none_of(readings_.begin(), readings_.end(),
                                     [&](const Reading& r) { return r.knob == *knob; });
  if (is_first) readings_.push_back({*knob, schedule.steps().size()});
  return knobs_->all()[*knob].values[static_cast<size_t>((*point_)[*knob])];
}

const VectorAxis& Construction::vector_axis(const StagePlan& stage) {
  return stage.vector_axes[static_cast<size_t>(value(stage, "vector"))];
}

int64_t Construction::lanes(const StagePlan& stage) const {
  return schedules::lanes(plan_->target, plan_->stage(stage));
}

int64_t Construction::extent(const StagePlan& stage, const std::string& loop) const {
  if (schedule.error()) return 1;
  const StageNest* nest = schedule.nest().find(stage.name);
  const int i = nest ? nest->find_loop(loop) : -1;
  return i < 0 ? 1 : nest->loops[static_cast<size_t>(i)].extent;
}

Loops concat(std::initializer_list<Loops> parts) {
  Loops all;
  for (const Loops& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Loops names_of(const std::vector<Axis>& axes) {
  Loops names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  return names;
}

namespace {

/// Loops of an axis outside of a tile, and inside.
struct TileLoops {
  Loops outer, inner;
};

void split_axis(Construction& c, const StagePlan& plan, const std::string& axis, int64_t factor,
                TileLoops& loops) {
  if (factor <= 1) return loops.outer.push_back(axis);
  if (factor >= c.extent(plan, axis)) return loops.inner.push_back(axis);
  c.schedule.add(Split{plan.name, axis, factor});
  loops.outer.push_back(axis + ".0");
  loops.inner.push_back(axis + ".1");
}

/// Splits `loop`, leaves the inner part there and returns the outer.
std::string split_off(Construction& c, const StagePlan& plan, std::string& loop, int64_t factor) {
  c.schedule.add(Split{plan.name, loop, factor});
  const std::string outer = loop + ".0";
  loop += ".1";
  return outer;
}

/// Whether the stage's epilogue stores another type than the stage sums in. The sum then needs an
/// accumulator of its own, which a loop around the reduction carries.
bool stores_another_type(const Construction& c, const StagePlan& plan) {
  const StageNest& nest = *c.plan().prologue.nest().find(plan.name);
  return nest.epilogue && nest.epilogue->type != nest.stage.type;
}

void unroll(Construction& c, const std::string& stage, const Loops& loops) {
  for (const std::string& loop : loops) c.schedule.add(Unroll{stage, loop});
}

/// The outermost `depth` of the loops become tasks.
void parallelize(Construction& c, const StagePlan& plan, const Loops& outer, size_t depth) {
  for (size_t i = 0; i < std::min(depth, outer.size()); ++i)
    c.schedule.add(Parallel{plan.name, outer[i]});
}

/// A reduction with a register tile of `vectors` vectors times the tiles of other axes.
class Tile {
 public:
  Tile(Construction& c, const StagePlan& plan, bool is_root)
      : c_(c),
        plan_(plan),
        stage_(c.plan().stage(plan)),
        vector_(c.vector_axis(plan)),
        is_root_(is_root) {}

  void construct() {
    const int64_t extent = c_.extent(plan_, vector_.axis);
    const int64_t width = std::min(c_.lanes(plan_), extent);
    const int64_t vectors = std::min(c_.value(plan_, "vectors"), ceil_div(extent, width));
    if (is_root_) choose_layouts(c_, plan_, vector_, width);
    split_vector_axis(extent, width, vectors);
    split_other_axes();
    place_vector_tiles();
    split_reduction();
    const int64_t taps = c_.value(plan_, "taps");
    const Loops reduction = reduction_order();
    const size_t depth =
        is_root_ ? std::min(static_cast<size_t>(c_.value(plan_, "tasks")), tile_.outer.size()) : 0;
    order_loops(reduction, depth);
    c_.schedule.add(Vectorize{plan_.name, lane_});
    for (const Loops& loops : {tile_.inner, vector_inner_, unrolled_})
      unroll(c_, plan_.name, loops);
    unroll_windows(taps);
    parallelize(c_, plan_, tile_.outer, depth);
  }

 private:
  void split_vector_axis(int64_t extent, int64_t width, int64_t vectors) {
    lane_ = vector_.axis;
    // The only axis keeps a loop around its tile, of one iteration, where an accumulator needs one.
    const bool needs_loop = stage_.axes.size() == 1 && stores_another_type(c_, plan_);
    if (vectors * width < extent || needs_loop)
      vector_outer_ = {split_off(c_, plan_, lane_, vectors * width)};
    if (vectors > 1) vector_inner_ = {split_off(c_, plan_, lane_, width)};
  }

  void split_other_axes() {
    for (const Axis& axis : stage_.axes) {
      if (axis.name == vector_.axis) continue;
      const auto& axes = plan_.tile_axes;
      const bool tiles = std::find(axes.begin(), axes.end(), axis.name) != axes.end();
      split_axis(c_, plan_, axis.name, tiles ? c_.value(plan_, "tile." + axis.name, 1) : 1, tile_);
    }
  }

  /// Where the loop over tiles of the vector axis stands among the outer loops.
  void place_vector_tiles() {
    Loops& outer = tile_.outer;
    const int64_t order = c_.value(plan_, "outer_order");
    const size_t place = order == 0 ? std::min<size_t>(outer.size(), stage_.axes.size() > 3 ? 1 : 0)
                         : order == 1 ? outer.size()
                                      : outer.size() - std::min<size_t>(outer.size(), 1);
    outer.insert(outer.begin() + static_cast<ptrdiff_t>(place), vector_outer_.begin(),
                 vector_outer_.end());
  }

  /// Blocks outside, windows, and the inside of a block.
  void split_reduction() {
    for (const Axis& axis : stage_.reduction)
      if (axis.name != plan_.main_reduction) windows_.push_back(axis.name);
    if (plan_.main_reduction.empty()) return;
    const int64_t length = extent_of(stage_, plan_.main_reduction);
    const int64_t block = c_.value(plan_, "block"), factor = c_.value(plan_, "unroll");
    std::string rest = plan_.main_reduction;
    if (block < length) {
      std::string blocks = split_off(c_, plan_, rest, block);
      const int64_t kblock = c_.value(plan_, "kblock");
      if (kblock > 0 && kblock * block < length)
        block_groups_ = {split_off(c_, plan_, blocks, kblock)};
      blocks_ = {blocks};
    }
    if (factor > 1 && factor < std::min(block, length)) {
      inside_ = {split_off(c_, plan_, rest, factor)};
      unrolled_ = {rest};
    } else if (factor > 1) {
      unrolled_ = {rest};
    } else {
      inside_ = {rest};
    }
  }

  Loops reduction_order() {
    switch (c_.value(plan_, "reduction_order")) {
      case 0:
        return concat({blocks_, windows_, inside_, unrolled_});
      case 1:
        return concat({windows_, blocks_, inside_, unrolled_});
      default:
        return concat({blocks_, inside_, windows_, unrolled_});
    }
  }

  /// A group of blocks of the reduction goes around the loops that its data is to be reused in.
  void order_loops(const Loops& reduction, size_t depth) {
    const auto first = tile_.outer.begin() + static_cast<ptrdiff_t>(depth);
    const Loops around =
        concat({{tile_.outer.begin(), first}, block_groups_, {first, tile_.outer.end()}});
    c_.schedule.add(
        Reorder{plan_.name, concat({around, reduction, tile_.inner, vector_inner_, {lane_}})});
    if (!around.empty()) c_.schedule.add(CacheWrite{plan_.name, around.back()});
  }

  /// taps: none, the innermost window axis, all.
  void unroll_windows(int64_t taps) {
    if (taps == 0 || windows_.empty()) return;
    unroll(c_, plan_.name, taps == 2 ? windows_ : Loops{windows_.back()});
  }

  Construction& c_;
  const StagePlan& plan_;
  const Stage& stage_;
  const VectorAxis& vector_;
  const bool is_root_;
  std::string lane_;                   // the vector loop
  Loops vector_outer_, vector_inner_;  // over tiles of the vector axis; over vectors of a tile
  TileLoops tile_;                     // of the other axes
  Loops block_groups_, blocks_, windows_, inside_, unrolled_;  // of the reduction
};

/// The partial results, one an element of `factor`, as vectors in registers.
void construct_partial_results(Construction& c, const StagePlan& plan, int64_t factor,
                               int64_t width) {
  const Stage& stage = c.plan().stage(plan);
  const std::string partial = plan.name + ".rf";
  const Loops outer = names_of(stage.axes);
  c.schedule.add(Rfactor{plan.name, plan.lane_axis, factor});
  c.schedule.add(ComputeAt{partial, plan.name, outer.back()});
  std::string lane = plan.lane_axis + "_rf";
  Loops unrolled;
  if (factor > width) {
    c.schedule.add(Split{partial, lane, width});
    unrolled = {lane + ".0"};
    lane += ".1";
  }
  c.schedule.add(Reorder{partial, concat({outer, names_of(stage.reduction), unrolled, {lane}})});
  c.schedule.add(CacheWrite{partial, outer.back()});
  c.schedule.add(Vectorize{partial, lane});
  unroll(c, partial, unrolled);
}

void construct_lanes(Construction& c, const StagePlan& plan, bool is_root) {
  const Stage& stage = c.plan().stage(plan);
  const int64_t width = c.lanes(plan), length = extent_of(stage, plan.lane_axis);
  const int64_t factor = std::min(c.value(plan, "lanes") * width, length);
  const StageNest* nest = c.schedule.error() ? nullptr : c.schedule.nest().find(plan.name);
  if (!nest) return;
  const Loops outer = names_of(stage.axes);
  if (outer.empty()) return;
  // A stage that was placed before it could be split is left as it is.
  const bool splits = length > width && !nest->at;
  if (splits) construct_partial_results(c, plan, factor, width);
  if (stores_another_type(c, plan)) c.schedule.add(CacheWrite{plan.name, outer.back()});
  if (!is_root) return;
  const size_t depth = splits ? static_cast<size_t>(c.value(plan, "tasks")) : outer.size();
  parallelize(c, plan, outer, depth);
}

void construct_elementwise(Construction& c, const StagePlan& plan, bool is_root) {
  const Stage& stage = c.plan().stage(plan);
  if (stage.axes.empty()) return;
  std::string lane = stage.axes.back().name;
  const int64_t extent = c.extent(plan, lane), width = std::min(c.lanes(plan), extent);
  const int64_t vectors = c.value(plan, "vectors");
  const int64_t columns = is_root ? c.value(plan, "columns") : 0;
  TileLoops tile;
  for (size_t i = 0; i + 1 < stage.axes.size(); ++i) {
    const bool is_row = i + 2 == stage.axes.size();
    split_axis(c, plan, stage.axes[i].name, is_row && is_root ? c.value(plan, "tile") : 1, tile);
  }
  Loops rest, unrolled;
  if (columns > 0 && columns < extent) tile.outer.push_back(split_off(c, plan, lane, columns));
  const int64_t length = c.extent(plan, lane);
  if (vectors * width < length) {
    rest = {split_off(c, plan, lane, vectors * width)};
    if (vectors > 1) unrolled = {split_off(c, plan, lane, width)};
  } else if (length > 64) {  // more than a vector loop may have
    rest = {split_off(c, plan, lane, width)};
  }
  const Loops order = concat({tile.outer, tile.inner, rest, unrolled, {lane}});
  if (order.size() > 1) c.schedule.add(Reorder{plan.name, order});
  c.schedule.add(Vectorize{plan.name, lane});
  unroll(c, plan.name, unrolled);
  if (!is_root) return;
  parallelize(c, plan, tile.outer, static_cast<size_t>(c.value(plan, "tasks")));
}

/// Where producers are computed that have no phase of their own.
struct Sites {
  std::map<std::string, std::string> owners;  ///< by stage: the stage in whose phase it is computed
  std::map<std::string, std::string> loops;   ///< by owner: the loop that its producers go to

  /// The stage in whose phase all readers are computed; empty where they are in several phases.
  std::string owner_of(const StagePlan& plan) const {
    std::string common;
    for (const std::string& reader : plan.readers) {
      const std::string& owner = owners.at(reader);
      if (!common.empty() && owner != common) return "";
      common = owner;
    }
    return common;
  }
};

/// Computes the stage inside its owner's loop if the point says so and there is one; returns
/// whether it did.
bool place(Construction& c, const StagePlan& plan, Sites& sites) {
  if (!plan.placeable || c.value(plan, "place") == 0) return false;
  const std::string owner = sites.owner_of(plan);
  if (owner.empty() || sites.loops[owner].empty()) return false;
  c.schedule.add(ComputeAt{plan.name, owner, sites.loops[owner]});
  sites.owners[plan.name] = owner;
  return true;
}

void construct_stage(Construction& c, const StagePlan& plan, bool is_root) {
  switch (plan.role) {
    case Role::Tiled:
      return Tile(c, plan, is_root).construct();
    case Role::Lanes:
      return construct_lanes(c, plan, is_root);
    case Role::Elementwise:
      return construct_elementwise(c, plan, is_root);
  }
}

std::string innermost_task(const Schedule& schedule, const std::string& stage) {
  std::string innermost;
  for (const NestLoop& loop : schedule.nest().find(stage)->loops)
    if (loop.parallel) innermost = loop.name;
  return innermost;
}

}  // namespace

Construction construct(const ComputePlan& plan, const Knobs& knobs, const Point& point) {
  if (plan.target.is_gpu()) return construct_for_gpu(plan, knobs, point);
  Construction c(plan, knobs, point);
  Sites sites;
  for (const StagePlan& stage : plan.stages) {
    const bool placed = place(c, stage, sites);
    construct_stage(c, stage, !placed);
    if (c.schedule.error()) break;
    if (placed) continue;
    sites.owners[stage.name] = stage.name;
    sites.loops[stage.name] = innermost_task(c.schedule, stage.name);
  }
  return c;
}

}  // namespace tw::schedules
