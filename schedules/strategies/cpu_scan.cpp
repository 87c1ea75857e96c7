// SPDX-License-Identifier: Apache-2.0
// A scan on a CPU. Several running values stay in registers while the loop along the scanned axis
// runs. They are vectors along the contiguous axis. If the scan itself runs along the contiguous
// axis, they are single numbers of neighbouring rows, whose chains of dependent operations overlap
// in time.

#include <algorithm>

#include "base/integer.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/cpu_loops.h"

namespace tw::schedules {
namespace {

struct CpuScan {
  int64_t chains = 1;  ///< vectors or rows that are scanned together
  int64_t steps = 1;   ///< unrolled iterations along the scanned axis
  int64_t tasks = 1;   ///< outermost loops that are parallel
};

class CpuScanStage : public Configured<CpuScan> {
 public:
  CpuScanStage(const ComputePlan& compute, const StagePlan& plan)
      : Configured(compute, plan),
        along_(stage_.scan->along),
        axes_(contiguous_last(independent_axes(stage_), plan_.contiguous)),
        is_vector_(plan_.contiguous != along_) {
    if (!axes_.empty()) {
      const int64_t most = ceil_div(extent_of(stage_, axes_.back()), width());
      std::vector<int64_t> chains;
      for (const int64_t c : {1, 2, 4, 8, 16})
        if (c == 1 || c <= most) chains.push_back(c);
      add_knob("chains", chains, &CpuScan::chains);
    }
    add_knob("steps", {1, 2, 4, 8}, &CpuScan::steps);
    if (!axes_.empty()) add_knob("tasks", {1, 2, 3}, &CpuScan::tasks);
  }

 private:
  int64_t width() const { return is_vector_ ? vector_lanes(compute_.target, stage_) : 1; }

  /// Prefers up to 8 chains: an addition takes four cycles, and a core begins two in a cycle.
  double prior(const CpuScan& config, bool /*placed*/) const override {
    return static_cast<double>(std::min<int64_t>(config.chains, 8) + 2 * config.tasks);
  }

  Site append_steps(const CpuScan& config, const Site* /*inside*/, Construction& c) const override {
    const std::string& name = plan_.name;
    Loops outer, unrolled, lanes;
    if (!axes_.empty()) {
      c.uses(config.chains);
      outer = Loops(axes_.begin(), axes_.end() - 1);
      split_chains(config, outer, unrolled, lanes, c);
    }
    c.uses(config.steps);
    std::string step = along_;
    Loops scanned;
    if (config.steps > 1 && config.steps < c.extent(name, step))
      scanned = {split_off(c, name, step, config.steps)};
    const Loops order = concat({outer, scanned, {step}, unrolled, lanes});
    if (order.size() > 1) c.schedule.add(Reorder{name, order});
    for (const std::string& lane : lanes) c.schedule.add(Vectorize{name, lane});
    unroll(c, name, unrolled);
    if (!scanned.empty()) unroll(c, name, {step});
    c.uses(config.tasks);
    parallelize(c, name, outer, static_cast<size_t>(config.tasks));
    return site_of(c, name);
  }

  /// Splits the last independent axis into a loop outside of the scan and the loops over its chains
  /// inside of the scan.
  void split_chains(const CpuScan& config, Loops& outer, Loops& unrolled, Loops& lanes,
                    Construction& c) const {
    std::string lane = axes_.back();
    if (!is_vector_ && config.chains == 1) return outer.push_back(lane);
    const int64_t extent = c.extent(plan_.name, lane), vector = std::min(width(), extent);
    if (config.chains * vector < extent)
      outer.push_back(split_off(c, plan_.name, lane, config.chains * vector));
    if (!is_vector_) {
      unrolled = {lane};
      return;
    }
    if (vector < c.extent(plan_.name, lane)) unrolled = {split_off(c, plan_.name, lane, vector)};
    lanes = {lane};
  }

  const std::string along_;
  const Loops axes_;  ///< all axes except along_; if one of them is contiguous in the result, it is
                      ///< last
  const bool is_vector_;
};

}  // namespace

std::unique_ptr<const StageStrategy> cpu_scan(const ComputePlan& plan, const StagePlan& stage) {
  if (plan.target.is_gpu() || !stage.scans) return nullptr;
  return std::make_unique<CpuScanStage>(plan, stage);
}

}  // namespace tw::schedules
