// SPDX-License-Identifier: Apache-2.0
// A stage without a reduction on a CPU. Vectors lie along the axis that is contiguous in the
// result, and several of them are unrolled. A second axis is tiled too, so that neighbouring loads
// along both axes are close to each other in time. If an input is transposed, the second axis is
// the axis along which that input is contiguous; else it is the axis before the contiguous axis of
// the result.

#include <algorithm>
#include <optional>

#include "schedules/space/strategy.h"
#include "schedules/strategies/cpu_loops.h"

namespace tw::schedules {
namespace {

// The largest number of iterations of a vector loop; longer loops are split.
constexpr int64_t most_vector_elements = 64;

struct CpuElementwise {
  int64_t tile = 1;     ///< number of elements of the second axis in a tile
  int64_t vectors = 1;  ///< number of unrolled vectors along the contiguous axis
  int64_t columns = 0;  ///< elements of the contiguous axis in a tile; 0: all
  int64_t tasks = 1;    ///< number of outermost loops that are parallel
};

class CpuElementwiseStage : public Configured<CpuElementwise> {
 public:
  CpuElementwiseStage(const ComputePlan& compute, const StagePlan& plan)
      : Configured(compute, plan), axes_(stage_.axes) {
    const std::optional<std::string> transposed = transposed_axis();
    const auto move_last = [&](const std::string& name) {
      std::stable_partition(axes_.begin(), axes_.end(),
                            [&](const dsl::Axis& axis) { return axis.name != name; });
    };
    if (transposed) move_last(*transposed);
    move_last(plan_.contiguous);
    const int64_t rows = axes_.size() > 1 ? axes_[axes_.size() - 2].extent : 1;
    std::vector<int64_t> tiles;
    for (const int64_t t : {1, 2, 4, 8, 16, 32, 64})
      if (t <= rows) tiles.push_back(t);
    add_knob("tile", tiles, &CpuElementwise::tile);
    add_knob("vectors", {1, 2, 4}, &CpuElementwise::vectors);
    std::vector<int64_t> columns = {0, 64, 128, 256, 512};
    // A tile of a transposed input touches a cache line for each column. Cache lines whose
    // distances are multiples of a large power of two share a set of the cache, and a set has only
    // 8 to 12 ways. So tiles with few columns are offered too.
    if (transposed) columns.insert(columns.begin() + 1, {8, 16, 32});
    add_knob("columns", columns, &CpuElementwise::columns);
    add_knob("tasks", {1, 2, 3}, &CpuElementwise::tasks);
  }

 private:
  Site append_steps(const CpuElementwise& config, const Site* inside,
                    Construction& c) const override {
    const std::string& name = plan_.name;
    compute_at(c, name, inside);
    if (axes_.empty()) return site_of(c, name);
    std::string lane = axes_.back().name;
    c.uses(config.vectors);
    const int64_t extent = c.extent(name, lane);
    const int64_t width = std::min(vector_lanes(compute_.target, stage_), extent);
    TileLoops tile = split_rows(config, !inside, c);
    c.uses(config.columns);
    if (!inside && config.columns > 0 && config.columns < extent)
      tile.outer.push_back(split_off(c, name, lane, config.columns));
    Loops rest, unrolled;
    const int64_t length = c.extent(name, lane);
    if (config.vectors * width < length) {
      rest = {split_off(c, name, lane, config.vectors * width)};
      if (config.vectors > 1) unrolled = {split_off(c, name, lane, width)};
    } else if (length > most_vector_elements) {
      rest = {split_off(c, name, lane, width)};
    }
    const Loops order = concat({tile.outer, tile.inner, rest, unrolled, {lane}});
    if (order.size() > 1) c.schedule.add(Reorder{name, order});
    c.schedule.add(Vectorize{name, lane});
    unroll(c, name, unrolled);
    if (inside) return {};
    c.uses(config.tasks);
    parallelize(c, name, tile.outer, static_cast<size_t>(config.tasks));
    return site_of(c, name);
  }

  /// Splits all axes except the contiguous one; only the second axis is tiled.
  TileLoops split_rows(const CpuElementwise& config, bool tiles, Construction& c) const {
    TileLoops tile;
    for (size_t i = 0; i + 1 < axes_.size(); ++i) {
      const bool is_tiled = tiles && i + 2 == axes_.size();
      if (is_tiled) c.uses(config.tile);
      split_axis(c, plan_.name, axes_[i].name, is_tiled ? config.tile : 1, tile);
    }
    return tile;
  }

  /// Returns the axis along which an input is contiguous, if that input is transposed, i.e. depends
  /// on the contiguous axis of the result but is not contiguous along it.
  std::optional<std::string> transposed_axis() const {
    std::optional<std::string> found;
    dsl::for_each(stage_.body, [&](const dsl::Expr& node) {
      const dsl::Read* read = node.as<dsl::Read>();
      if (!read || read->indices.empty() || found) return;
      const dsl::Expr& last = read->indices[contiguous_dimension(compute_, *read)];
      if (dsl::uses_var(last, plan_.contiguous) || !dsl::uses_var(node, plan_.contiguous)) return;
      for (const dsl::Axis& axis : stage_.axes)
        if (axis.extent > 1 && dsl::uses_var(last, axis.name)) found = axis.name;
    });
    return found;
  }

  // axes of the stage; the axis that is contiguous in the result is last
  std::vector<dsl::Axis> axes_;
};

}  // namespace

std::unique_ptr<const StageStrategy> cpu_elementwise(const ComputePlan& plan,
                                                     const StagePlan& stage) {
  // cpu_transform schedules the stages of algorithms, except those that are single numbers.
  const bool is_left = !plan.algorithm.empty() && !plan.stage(stage).axes.empty();
  if (plan.target.is_gpu() || stage.reduces || is_left) return nullptr;
  return std::make_unique<CpuElementwiseStage>(plan, stage);
}

}  // namespace tw::schedules
