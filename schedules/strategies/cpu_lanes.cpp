// SPDX-License-Identifier: Apache-2.0
// A reduction along contiguous elements on a CPU. The lanes of a few vectors hold partial results
// (rfactor), which are combined at the end. A few results that share an operand may be computed
// together. For example, all results of a matrix-vector product share the vector.

#include <algorithm>

#include "base/integer.h"
#include "schedules/nest.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/cpu_loops.h"

namespace tw::schedules {
namespace {

// The largest number of partial results that are combined by straight-line code, which LLVM
// compiles to a tree of vector operations. A loop would be a chain of dependent additions: 64 of
// them take as long as the reduction of 4096 elements of a row.
constexpr int64_t most_unrolled = 64;

struct CpuLanes {
  int64_t vectors = 1;  ///< number of vectors of partial results
  int64_t tasks = 1;    ///< number of outermost loops that are parallel
  int64_t rows = 1;     ///< number of results that are computed together
  // Computed from the members above:
  int64_t width = 1;    ///< elements of a vector
  int64_t partial = 1;  ///< number of partial results
};

class CpuLanesStage : public Configured<CpuLanes> {
 public:
  CpuLanesStage(const ComputePlan& compute, const StagePlan& plan) : Configured(compute, plan) {
    add_knob("lanes", {1, 2, 4}, &CpuLanes::vectors);
    add_knob("tasks", {1, 2, 3}, &CpuLanes::tasks);
    row_axis_ = shared_along();
    if (!row_axis_.empty()) add_optional_knob("rows", {1, 2, 4}, &CpuLanes::rows);
  }

 private:
  void complete(CpuLanes& config) const override {
    config.width = vector_lanes(compute_.target, stage_);
    config.partial = std::min(config.vectors * config.width, length_);
  }

  /// True if the registers hold the partial results of all rows and one vector of each factor.
  bool fits(const CpuLanes& config) const override {
    if (config.rows == 1) return true;
    const int64_t accumulators = config.rows * ceil_div(config.partial, config.width);
    return config.rows <= extent_of(stage_, row_axis_) &&
           accumulators <= compute_.target.machine.core.vector_registers - 2;
  }

  /// Prefers many rows, because the factor that they share is loaded only once for all of them.
  double prior(const CpuLanes& config, bool /*placed*/) const override {
    return static_cast<double>(config.rows - 1);
  }

  /// Returns the last axis of extent above 1 if the results along it share a factor, i.e. if one of
  /// the reduced tensors does not depend on the axis. Otherwise the name is empty.
  std::string shared_along() const {
    const auto axis = std::find_if(stage_.axes.rbegin(), stage_.axes.rend(),
                                   [](const auto& a) { return a.extent > 1; });
    if (axis == stage_.axes.rend()) return {};
    bool is_shared = false;
    for_each_read(stage_.body, [&](const dsl::Read& read) {
      is_shared |= uses_axis(read, plan_.lane_axis) && !uses_axis(read, axis->name);
    });
    return is_shared ? axis->name : std::string();
  }

  Site append_steps(const CpuLanes& config, const Site* inside, Construction& c) const override {
    const std::string& name = plan_.name;
    Loops outer = names_of(stage_.axes);
    const bool splits = length_ > config.width && (!outer.empty() || !inside);
    if (splits) {  // rfactor comes before all other steps of the stage
      c.uses(config.vectors);
      c.schedule.add(Rfactor{name, plan_.lane_axis, config.partial});
    }
    compute_at(c, name, inside);
    if (splits) {
      const Loops row = split_rows(config, name, outer, c);
      const bool is_apart = !row.empty() && row_axis_ != stage_.axes.back().name;
      if (is_apart) c.schedule.add(Reorder{name, concat({outer, row})});
      append_partial_results(config, outer.empty() ? std::string() : outer.back(), c);
    }
    if (outer.empty()) return inside ? Site{} : site_of(c, name);
    if (stores_another_type(compute_, name)) c.schedule.add(CacheWrite{name, outer.back()});
    if (inside) return {};
    if (splits) c.uses(config.tasks);
    parallelize(c, name, outer, splits ? static_cast<size_t>(config.tasks) : outer.size());
    return site_of(c, name);
  }

  /// Splits the loop over the results that share a factor into tiles of the configuration's rows.
  /// Replaces the loop in `outer` by the loop over tiles, and returns the loop within a tile.
  /// Returns no loop if results are computed one by one.
  Loops split_rows(const CpuLanes& config, const std::string& stage, Loops& outer,
                   Construction& c) const {
    if (row_axis_.empty()) return {};
    c.uses(config.rows);
    // Inside another stage, the extent is that of the part that this stage needs.
    const int64_t rows = std::min(config.rows, c.extent(stage, row_axis_));
    if (rows == 1) return {};
    std::string row = row_axis_;
    std::replace(outer.begin(), outer.end(), row_axis_, split_off(c, stage, row, rows));
    return {row};
  }

  /// Computes vectors of partial results, in registers, for the results of one iteration of the
  /// loop `at`. If `at` is empty, the stage reduces to a single number and has no such loop. The
  /// stage of its partial results then has its own phase.
  void append_partial_results(const CpuLanes& config, const std::string& at,
                              Construction& c) const {
    const std::string partial = plan_.name + ".rf";
    if (!at.empty()) c.schedule.add(ComputeAt{partial, plan_.name, at});
    Loops outer = names_of(stage_.axes);
    Loops unrolled = split_rows(config, partial, outer, c);
    std::string lane = plan_.lane_axis + "_rf";
    if (config.partial > config.width)
      unrolled.push_back(split_off(c, partial, lane, config.width));
    c.schedule.add(Reorder{partial, concat({outer, names_of(stage_.reduction), unrolled, {lane}})});
    if (!outer.empty()) c.schedule.add(CacheWrite{partial, outer.back()});
    c.schedule.add(Vectorize{partial, lane});
    unroll(c, partial, unrolled);
    if (config.partial <= most_unrolled) unroll(c, plan_.name, {plan_.lane_axis + "_rf"});
  }

  const int64_t length_ = extent_of(stage_, plan_.lane_axis);
  std::string row_axis_;  ///< axis along which results share a factor; empty if they share none
};

}  // namespace

std::unique_ptr<const StageStrategy> cpu_lanes(const ComputePlan& plan, const StagePlan& stage) {
  if (plan.target.is_gpu() || !stage.reduces || stage.scans || !stage.prefers_lanes ||
      stage.selects())
    return nullptr;
  return std::make_unique<CpuLanesStage>(plan, stage);
}

}  // namespace tw::schedules
