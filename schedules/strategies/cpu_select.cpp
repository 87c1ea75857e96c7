// SPDX-License-Identifier: Apache-2.0
// A gather or a scatter on a CPU (dsl/selection.h). Loops over the axes on which the indices depend
// are outermost. Loops over the selected axes are inside of them and are not split, so that each of
// them becomes at most one iteration:
//
//   for i:  for v in index[i]..index[i] + 1:  vector c:  out[i, c] += table[v, c]
//
// The vectors lie along the contiguous axis of the result. There are no vectors if an index depends
// on that axis or selects it.

#include <algorithm>

#include "base/integer.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/cpu_loops.h"

namespace tw::schedules {
namespace {

struct CpuSelect {
  int64_t vectors = 1;  ///< number of unrolled vectors along the contiguous axis
  int64_t tasks = 1;    ///< number of outermost loops that are parallel
};

class CpuSelectStage : public Configured<CpuSelect> {
 public:
  CpuSelectStage(const ComputePlan& compute, const StagePlan& plan) : Configured(compute, plan) {
    const auto is_selected = [&](const std::string& axis) {
      return contains(plan_.selection.selected, axis);
    };
    has_lanes_ = !is_selected(plan_.contiguous) &&
                 !contains(plan_.selection.selectors, plan_.contiguous) &&
                 !plan_.contiguous.empty();
    for (const std::string& axis : names_of(stage_.axes))
      if (is_selected(axis)) {
        scattered_.push_back(axis);
      } else if (!has_lanes_ || axis != plan_.contiguous) {
        outer_.push_back(axis);
      }
    for (const std::string& axis : names_of(stage_.reduction))
      (is_selected(axis) ? gathered_ : reduced_).push_back(axis);
    if (has_lanes_) add_knob("vectors", {1, 2, 4, 8}, &CpuSelect::vectors);
    add_knob("tasks", {1, 2, 3}, &CpuSelect::tasks);
  }

 private:
  int64_t width_along(int64_t extent) const {
    return std::min(vector_lanes(compute_.target, stage_), std::max<int64_t>(extent, 1));
  }

  bool fits(const CpuSelect& config) const override {
    if (config.vectors == 1) return true;
    const int64_t extent = extent_of(stage_, plan_.contiguous);
    return (config.vectors - 1) * width_along(extent) < extent;
  }

  double prior(const CpuSelect& config, bool /*placed*/) const override {
    return static_cast<double>(config.vectors + 2 * config.tasks);
  }

  Site append_steps(const CpuSelect& config, const Site* inside, Construction& c) const override {
    const std::string& name = plan_.name;
    compute_at(c, name, inside);
    Loops tiles, unrolled, lanes;
    if (has_lanes_) {
      c.uses(config.vectors);
      split_lanes(config, tiles, unrolled, lanes, c);
    }
    // A scatter reads its updates once and adds to its result in memory, so its loops over tiles of
    // vectors are inside of the reduction. A gather keeps its sums in registers, so its loops over
    // tiles are outside of the reduction.
    const bool scatters = !scattered_.empty();
    const Loops outer = scatters ? outer_ : concat({outer_, tiles});
    const Loops order = concat(
        {outer, reduced_, gathered_, scattered_, scatters ? tiles : Loops(), unrolled, lanes});
    if (order.size() > 1) c.schedule.add(Reorder{name, order});
    if (!scatters && !outer.empty()) c.schedule.add(CacheWrite{name, outer.back()});
    for (const std::string& lane : lanes) c.schedule.add(Vectorize{name, lane});
    unroll(c, name, unrolled);
    if (inside) return {};
    c.uses(config.tasks);
    parallelize(c, name, outer, static_cast<size_t>(config.tasks));
    return site_of(c, name);
  }

  /// Splits the contiguous axis into loops over tiles, over the vectors of a tile, and over the
  /// elements of a vector. If this is the only axis, a loop of one iteration stays around the tile,
  /// because the accumulator needs a loop.
  void split_lanes(const CpuSelect& config, Loops& tiles, Loops& unrolled, Loops& lanes,
                   Construction& c) const {
    std::string lane = plan_.contiguous;
    // Inside another stage, the extent is that of the part that this stage needs.
    const int64_t extent = c.extent(plan_.name, lane);
    const int64_t width = width_along(extent);
    const int64_t vectors = std::clamp<int64_t>(ceil_div(extent, width), 1, config.vectors);
    if (vectors * width < extent || outer_.empty())
      tiles = {split_off(c, plan_.name, lane, vectors * width)};
    if (vectors > 1) unrolled = {split_off(c, plan_.name, lane, width)};
    lanes = {lane};
  }

  bool has_lanes_ = false;
  Loops outer_;      // spatial axes whose loops are outermost
  Loops scattered_;  // spatial axes that are selected
  Loops reduced_;    // axes of the reduction that are not selected
  Loops gathered_;   // axes of the reduction that are selected
};

}  // namespace

std::unique_ptr<const StageStrategy> cpu_select(const ComputePlan& plan, const StagePlan& stage) {
  if (plan.target.is_gpu() || !stage.selects()) return nullptr;
  return std::make_unique<CpuSelectStage>(plan, stage);
}

}  // namespace tw::schedules
