// SPDX-License-Identifier: Apache-2.0
// Strategy for a stage on a GPU that is neither a product nor a reduction of rows. Each thread
// computes a vector of neighbouring elements, and neighbouring threads compute neighbouring
// vectors. If each block of threads computes a row, producers may be computed in the block, and
// their elements may stay in registers of the threads. A single thread computes a stage that has no
// axes to divide, such as a short sum to a single number. If there are few results of long
// reductions, such as the sums of columns, several blocks may compute parts of a result.

#include <algorithm>
#include <cmath>

#include "base/integer.h"
#include "schedules/program/threads.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/gpu_rows.h"

namespace tw::schedules {
namespace {

struct GpuElementwise {
  int64_t threads = warp_threads;  ///< threads of a block
  int64_t vector = 1;  ///< vector width: number of neighbouring elements that a thread computes
  /// 0: a block computes a part of all elements; 1: a block computes a row; 2: a block computes a
  /// row, and its threads keep the elements of producers in registers
  int64_t rows = 0;
  int64_t unrolled_axes = 0;  ///< number of innermost reduction axes that are unrolled
  int64_t parts = 1;          ///< parts of a reduction; a second phase combines them
};

// Prior of vectors that are not aligned, which a thread loads and stores element by element.
constexpr double unaligned_prior = -10;
// The largest number of elements of a row that a thread keeps in registers. With 64, a softmax of
// f32 takes 168 of the 255 registers that a thread may have (NVRTC 13.0).
constexpr int64_t most_kept = 64;
// The shortest reduction axis that is divided into parts, and the largest number of parts. A thread
// combines the parts of a result one after another.
constexpr int64_t least_divided = 64, most_combined = 256;
// Number of terms of a part that the prior prefers. A guess; the cost model decides.
constexpr double terms_of_part = 64;

class GpuElementwiseStage : public Configured<GpuElementwise> {
 public:
  GpuElementwiseStage(const ComputePlan& compute, const StagePlan& plan)
      : Configured(compute, plan),
        axes_(contiguous_last(independent_axes(stage_), plan_.contiguous)) {
    if (axes_.empty()) return;
    add_knob(
        "threads",
        powers(points_of(stage_, axes_), warp_threads, compute_.target.machine.gpu->block_threads),
        &GpuElementwise::threads);
    add_knob("together",
             size_bytes(stage_.type) == 2 ? std::vector<int64_t>{1, 2, 4, 8}
                                          : std::vector<int64_t>{1, 2, 4},
             &GpuElementwise::vector);
    if (axes_.size() > 1)
      add_knob("rows", may_keep_rows() ? std::vector<int64_t>{0, 1, 2} : std::vector<int64_t>{0, 1},
               &GpuElementwise::rows);
    if (stage_.reduction.size() > 1) add_knob("taps", {0, 1, 2}, &GpuElementwise::unrolled_axes);
    if (may_have_parts())
      add_optional_knob("parts", powers(longest().extent, 1, most_combined),
                        &GpuElementwise::parts);
  }
  bool can_be_climbed() const override { return true; }

 private:
  /// Returns the longest reduction axis. Requires: the stage reduces.
  const dsl::Axis& longest() const {
    return *std::ranges::max_element(stage_.reduction, {}, &dsl::Axis::extent);
  }

  /// True if one thread for each result would leave most of the GPU idle.
  bool may_have_parts() const {
    if (!plan_.reduces || plan_.scans || plan_.selects() || plan_.placeable()) return false;
    return longest().extent >= least_divided &&
           static_cast<double>(points_of(stage_, axes_)) < threads_of_gpu();
  }

  /// Returns the number of threads of the whole GPU if each multiprocessor runs one block of the
  /// largest size.
  double threads_of_gpu() const {
    const Machine& machine = compute_.target.machine;
    return static_cast<double>(machine.cores) * static_cast<double>(machine.gpu->block_threads);
  }

  /// True if the stage has its own phase, and a stage that reduces rows can be computed inside of
  /// it.
  bool may_keep_rows() const {
    return !plan_.placeable() && std::ranges::any_of(compute_.stages, [&](const StagePlan& other) {
      return other.owner == plan_.name && other.reduces_rows;
    });
  }

  bool fits(const GpuElementwise& config) const override {
    if (config.parts > 1 && (config.rows > 0 || config.parts > longest().extent)) return false;
    return config.rows < 2 ||
           ceil_div(extent_of(stage_, axes_.back()), config.threads) <= most_kept;
  }

  double prior(const GpuElementwise& config, bool placed) const override {
    if (axes_.empty()) return placed;
    const double by_threads = preference(config.threads, 128, 1);
    if (!stage_.reduction.empty()) return placed + by_threads + prior_of_parts(config);
    // A thread loads and stores a vector at once, if the vector is aligned.
    const int64_t neighbours =
        config.rows > 0 ? extent_of(stage_, axes_.back()) : points_of(stage_, axes_);
    const double vectors = neighbours % config.vector == 0
                               ? std::log2(static_cast<double>(config.vector))
                               : unaligned_prior;
    return placed + by_threads + vectors / 2;
  }

  Site append_steps(const GpuElementwise& config, const Site* inside,
                    Construction& c) const override {
    if (inside) place_in_block(c, plan_, *inside);
    if (inside || axes_.empty()) return {};
    c.uses(config.parts);
    if (config.parts > 1) {
      append_parts(config, c);
      return {};
    }
    c.uses(config.threads, config.vector, config.rows);
    return append_elements(config, plan_.name, {}, c);
  }

  double prior_of_parts(const GpuElementwise& config) const {
    if (!may_have_parts()) return 0;
    const auto results = static_cast<double>(std::max<int64_t>(1, points_of(stage_, axes_)));
    const auto terms = static_cast<double>(points_of(stage_, names_of(stage_.reduction)));
    const double useful = std::min(
        {threads_of_gpu() / results, terms / terms_of_part, static_cast<double>(longest().extent)});
    return preference(config.parts, std::max(1.0, useful), 1);
  }

  /// Schedules two stages: that of rfactor, which computes the parts, and the stage itself, which
  /// combines them.
  void append_parts(const GpuElementwise& config, Construction& c) const {
    const std::string part = longest().name + "_rf";
    c.schedule.add(Rfactor{plan_.name, longest().name, config.parts, Partition::Blocks});
    c.uses(config.threads, config.vector, config.rows);
    append_elements(config, plan_.name + ".rf", {part}, c);
    const Loops axes = contiguous_last(names_of(stage_.axes), plan_.contiguous);
    if (axes != names_of(stage_.axes)) c.schedule.add(Reorder{plan_.name, axes});
    std::string thread = fuse_all(c, plan_.name, axes);
    const std::string block = split_off(c, plan_.name, thread, config.threads);
    c.schedule.add(CacheWrite{plan_.name, thread});
    c.schedule.add(Parallel{plan_.name, block});
    c.schedule.add(Bind{plan_.name, thread});
  }

  void close(const Site& site, Construction& c) const override {
    if (site.row > 0) cache_rows(c, site);
  }

  /// Schedules the stage `name`. Its outermost loops are `parts`, and blocks of their own run each
  /// iteration of these loops. The loops over the elements are inside of them.
  Site append_elements(const GpuElementwise& config, const std::string& name, const Loops& parts,
                       Construction& c) const {
    const Loops reduction = reduced_axes(stage_);
    Loops axes = axes_, blocks = parts, neighbours;
    if (axes != independent_axes(stage_)) c.schedule.add(Reorder{name, concat({axes, reduction})});
    std::string thread = axes.back();
    Site site;
    if (config.rows > 0) {
      axes.pop_back();
      blocks = {fuse_all(c, name, axes)};
      site = rows_of(plan_, blocks.front(), config.threads);
      if (config.rows == 2) {
        site.row = extent_of(stage_, thread);
        site.row_axis = thread;
        site.vector = config.vector;
      }
    } else {
      thread = fuse_all(c, name, axes);
    }
    const std::string tile = split_off(c, name, thread, config.threads * config.vector);
    Loops repeats;
    (config.rows > 0 ? repeats : blocks).push_back(tile);
    if (config.vector > 1) {
      std::string lanes = thread;
      thread = split_off(c, name, lanes, config.vector);
      neighbours = {lanes};
    }
    c.schedule.add(Reorder{name, concat({blocks, repeats, {thread}, reduction, neighbours})});
    if (!reduction.empty() && !plan_.scans) c.schedule.add(CacheWrite{name, thread});
    for (const std::string& block : blocks) c.schedule.add(Parallel{name, block});
    c.schedule.add(Bind{name, thread});
    for (const std::string& lanes : neighbours) c.schedule.add(Vectorize{name, lanes});
    if (site.row > 0) unroll(c, name, repeats);
    c.uses(config.unrolled_axes);
    const auto taps = static_cast<size_t>(config.unrolled_axes);
    for (size_t i = reduction.size(); i > 0 && reduction.size() - i < taps; --i)
      c.schedule.add(Unroll{name, reduction[i - 1]});
    return site;
  }

  Loops axes_;  ///< axes over which threads are distributed; neighbouring threads are neighbours
                ///< along the last axis
};

}  // namespace

std::unique_ptr<const StageStrategy> gpu_elementwise(const ComputePlan& plan,
                                                     const StagePlan& stage) {
  if (!plan.target.is_gpu()) return nullptr;
  const bool is_serial =
      independent_axes(plan.stage(stage)).empty() && !plan.stage(stage).axes.empty();
  if (!is_serial && (stage.is_product() || !shared_axis(plan, stage).empty())) return nullptr;
  return std::make_unique<GpuElementwiseStage>(plan, stage);
}

}  // namespace tw::schedules
