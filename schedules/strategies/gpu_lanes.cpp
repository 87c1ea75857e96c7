// SPDX-License-Identifier: Apache-2.0
// Strategy for a reduction along contiguous elements on a GPU, and for a reduction to a single
// number. Each block of threads reduces a row, which is split over the block's threads (rfactor).
// If there are fewer rows than multiprocessors, a row may be reduced in parts: each block reduces a
// part, and a second phase combines the parts. The stages that produce the elements of a row may be
// computed in the block, if it reduces a whole row.

#include <algorithm>

#include "schedules/program/threads.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/gpu_rows.h"

namespace tw::schedules {
namespace {

struct GpuLanes {
  int64_t threads = warp_threads;  ///< threads of a block
  int64_t parts = 1;               ///< parts of a row; a block of threads reduces each part
};

// The largest number of parts, which one warp combines in 16 steps.
constexpr int64_t most_parts = 512;
// Number of terms of a thread that the prior prefers. A guess; the cost model decides.
constexpr double terms_of_thread = 16;

class GpuLanesStage : public Configured<GpuLanes> {
 public:
  GpuLanesStage(const ComputePlan& compute, const StagePlan& plan)
      : Configured(compute, plan), axis_(shared_axis(compute, plan)), parts_axis_(axis_of_parts()) {
    const int64_t most_threads = compute_.target.machine.gpu->block_threads;
    add_knob("threads", powers(extent_of(stage_, axis_), warp_threads, most_threads),
             &GpuLanes::threads);
    if (!may_have_parts()) return;
    const int64_t terms = extent_of(stage_, parts_axis_);
    add_optional_knob("parts",
                      powers(splits_one_axis() ? terms / warp_threads : terms, 1, most_parts),
                      &GpuLanes::parts);
  }
  bool can_be_climbed() const override { return true; }

 private:
  bool is_number() const { return stage_.axes.empty(); }

  bool splits_one_axis() const { return parts_axis_ == axis_; }

  /// Returns the reduction axis that can be divided into the most parts. If the threads of a block
  /// divide the same axis, each part has at least as many iterations as a warp has threads.
  std::string axis_of_parts() const {
    std::string best = axis_;
    int64_t most = extent_of(stage_, axis_) / warp_threads;
    for (const dsl::Axis& axis : stage_.reduction) {
      if (axis.name == axis_ || axis.extent <= most) continue;
      best = axis.name;
      most = axis.extent;
    }
    return best;
  }

  int64_t rows() const { return points_of(stage_, names_of(stage_.axes)); }

  /// True if parts could occupy multiprocessors that would be idle otherwise.
  bool may_have_parts() const {
    return is_number() || (!plan_.placeable() && rows() < compute_.target.machine.cores);
  }

  bool fits(const GpuLanes& config) const override {
    return config.parts == 1 || !splits_one_axis() ||
           config.parts * config.threads <= extent_of(stage_, axis_);
  }

  double prior(const GpuLanes& config, bool placed) const override {
    double rating = placed + preference(config.threads, 128, 1);
    if (may_have_parts() && !placed) {
      const auto terms = static_cast<double>(points_of(stage_, names_of(stage_.reduction)));
      const double idle =
          compute_.target.machine.cores / static_cast<double>(std::max<int64_t>(1, rows()));
      const double useful = terms / (static_cast<double>(config.threads) * terms_of_thread);
      rating += preference(config.parts, std::max(1.0, std::min(idle, useful)), 1);
    }
    return rating;
  }

  Site append_steps(const GpuLanes& config, const Site* inside, Construction& c) const override {
    if (inside) {
      place_in_block(c, plan_, *inside);
      return {};
    }
    c.uses(config.threads, config.parts);
    if (is_number() || config.parts > 1) {
      append_parts(config, c);
      return {};
    }
    c.schedule.add(Rfactor{plan_.name, axis_, config.threads});
    const Site site = rows_of(plan_, stage_.axes.back().name, config.threads);
    append_partial_sums(c, plan_, site);
    for (const dsl::Axis& axis : stage_.axes) c.schedule.add(Parallel{plan_.name, axis.name});
    return site;
  }

  /// Schedules three stages. The first computes the partial results of threads, the second the
  /// results of parts, the third the results of rows. A block of threads computes a part.
  void append_parts(const GpuLanes& config, Construction& c) const {
    const std::string lane = axis_ + "_rf";
    std::string part, parts, partial;
    if (splits_one_axis()) {
      c.schedule.add(Rfactor{plan_.name, axis_, config.threads * config.parts});
      c.schedule.add(Rfactor{plan_.name, lane, config.parts, Partition::Blocks});
      part = lane + "_rf", parts = plan_.name + ".rf.rf", partial = plan_.name + ".rf";
    } else {
      part = parts_axis_ + "_rf", parts = plan_.name + ".rf", partial = parts + ".rf";
      c.schedule.add(Rfactor{plan_.name, parts_axis_, config.parts, Partition::Blocks});
      c.schedule.add(Rfactor{parts, axis_, config.threads});
    }
    const Loops axes = names_of(stage_.axes);
    const std::string innermost = is_number() ? part : axes.back();
    c.schedule.add(ComputeAt{partial, parts, innermost});
    c.schedule.add(CacheWrite{partial, lane});
    c.schedule.add(Bind{partial, lane});
    c.schedule.add(CacheWrite{parts, innermost});
    c.schedule.add(Bind{parts, lane});
    for (const std::string& axis : concat({{part}, axes})) c.schedule.add(Parallel{parts, axis});
    if (is_number()) return combine_number(c, plan_.name, part);
    c.schedule.add(CacheWrite{plan_.name, innermost});
    c.schedule.add(Bind{plan_.name, part});
    for (const std::string& axis : axes) c.schedule.add(Parallel{plan_.name, axis});
  }

  std::string axis_;        ///< reduction axis along which the threads of a block divide the terms
  std::string parts_axis_;  ///< reduction axis that is divided into parts
};

}  // namespace

std::unique_ptr<const StageStrategy> gpu_lanes(const ComputePlan& plan, const StagePlan& stage) {
  if (!plan.target.is_gpu() || shared_axis(plan, stage).empty()) return nullptr;
  return std::make_unique<GpuLanesStage>(plan, stage);
}

}  // namespace tw::schedules
