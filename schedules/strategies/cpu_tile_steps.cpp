// SPDX-License-Identifier: Apache-2.0
// The steps of a reduction by a register tile on a CPU (cpu_tile.h).

#include <algorithm>
#include <string>

#include "base/integer.h"
#include "schedules/lowering/prefetch.h"
#include "schedules/nest.h"
#include "schedules/strategies/cpu_loops.h"
#include "schedules/strategies/cpu_tile.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

// Number of cache lines that an iteration may prefetch at once. A core can have 10 to 24
// outstanding requests for lines, of which the loads of the tile need some.
constexpr int64_t few_lines = 4;

/// The steps of one configuration.
class TileSteps {
 public:
  TileSteps(Construction& c, const StagePlan& plan, const Stage& stage, const CpuTile& config,
            bool is_root)
      : c_(c), plan_(plan), stage_(stage), config_(config), is_root_(is_root) {}

  void append() {
    c_.uses(config_.vector, config_.vectors);
    // Inside another stage, the extent is that of the part that this stage needs.
    const int64_t extent = c_.extent(plan_.name, config_.axis->axis);
    const int64_t width = std::min(config_.lanes, extent);
    const int64_t vectors = std::min(config_.vectors, ceil_div(extent, width));
    choose_layouts(c_, plan_, config_, width, is_root_);
    split_vector_axis(extent, width, vectors);
    split_other_axes();
    if (config_.core && rows_.empty()) return;  // rows along the vector axis are no tile
    place_vector_tiles();
    split_reduction();
    c_.uses(config_.window_axes);
    const Loops reduction = reduction_order();
    if (is_root_) c_.uses(config_.tasks, config_.strip);
    const size_t depth =
        is_root_ ? std::min(static_cast<size_t>(config_.tasks), tile_.outer.size()) : 0;
    if (depth > 0) cut_strips(depth - 1);
    order_loops(reduction, depth);
    if (config_.core) {
      c_.schedule.add(Tensorize{plan_.name, rows_.front(), std::string(config_.core->name)});
    } else {
      c_.schedule.add(Vectorize{plan_.name, lane_});
      for (const std::string& loop : products_) c_.schedule.add(Vectorize{plan_.name, loop});
    }
    for (const Loops& loops : {tile_.inner, vector_inner_, unrolled_})
      unroll(c_, plan_.name, loops);
    unroll_windows();
    parallelize(c_, plan_.name, tile_.outer, depth);
    if (is_root_) prefetch_weights();
  }

 private:
  void split_vector_axis(int64_t extent, int64_t width, int64_t vectors) {
    lane_ = config_.axis->axis;
    // The vector axis keeps a loop around its tile, even a loop of a single iteration, if an
    // accumulator must be allocated in it.
    const bool needs_loop =
        config_.core || (stage_.axes.size() == 1 && stores_another_type(c_.plan(), plan_.name));
    if (vectors * width < extent || needs_loop)
      vector_outer_ = {split_off(c_, plan_.name, lane_, vectors * width)};
    if (vectors > 1) vector_inner_ = {split_off(c_, plan_.name, lane_, width)};
  }

  void split_other_axes() {
    if (config_.core) c_.uses(config_.row, config_.rows, config_.row_tiles);
    for (const Axis& axis : stage_.axes) {
      if (axis.name == config_.axis->axis) continue;
      const bool may_fuse = can_fuse() && contains(plan_.fused_axes, axis.name);
      if (may_fuse) c_.uses(config_.fused);
      const int64_t tile = tile_along(axis.name);
      if (!may_fuse || config_.fused == 0)
        split_axis(c_, plan_.name, axis.name, tile, tile_);
      else if (axis.name == plan_.fused_axes.front())
        split_axis(c_, plan_.name, fuse_all(c_, plan_.name, plan_.fused_axes), config_.fused,
                   tile_);
      if (config_.core && axis.name == plan_.tile_axes[static_cast<size_t>(config_.row)])
        split_rows();
    }
  }

  /// Splits the rows of a core tile off the axis' loop in the register tile.
  void split_rows() {
    std::string rows = tile_.inner.back();
    tile_.inner.pop_back();
    if (config_.row_tiles > 1) tile_.inner.push_back(split_off(c_, plan_.name, rows, config_.rows));
    rows_ = {rows};
  }

  /// True if the fused axes may be fused: none of them is the vector axis.
  bool can_fuse() const { return !contains(plan_.fused_axes, config_.axis->axis); }

  int64_t tile_along(const std::string& axis) {
    const auto at = std::find(plan_.tile_axes.begin(), plan_.tile_axes.end(), axis);
    if (at == plan_.tile_axes.end()) return 1;
    const int64_t& tile = config_.tiles[static_cast<size_t>(at - plan_.tile_axes.begin())];
    c_.uses(tile);
    return tile;
  }

  /// Inserts the loop over tiles of the vector axis into the outer loops. Its place is the first
  /// (or the second if the first loop is probably a batch), the last, or the last but one, as
  /// CpuTile::outer_order says.
  void place_vector_tiles() {
    c_.uses(config_.outer_order);
    Loops& outer = tile_.outer;
    const int64_t order = config_.outer_order;
    const size_t place = order == 0 ? std::min<size_t>(outer.size(), stage_.axes.size() > 3 ? 1 : 0)
                         : order == 1 ? outer.size()
                                      : outer.size() - std::min<size_t>(outer.size(), 1);
    outer.insert(outer.begin() + static_cast<ptrdiff_t>(place), vector_outer_.begin(),
                 vector_outer_.end());
  }

  /// Cuts the outer loop at index `place` into strips. Stages that this stage reads may be computed
  /// once for each strip.
  void cut_strips(size_t place) {
    std::string& loop = tile_.outer[place];
    if (config_.strip <= 1 || config_.strip >= c_.extent(plan_.name, loop)) return;
    std::string inside = loop;
    const bool is_of_vectors = !vector_outer_.empty() && vector_outer_.front() == loop;
    loop = split_off(c_, plan_.name, inside, config_.strip);
    if (is_of_vectors) vector_outer_ = {inside};
    tile_.outer.insert(tile_.outer.begin() + static_cast<ptrdiff_t>(place) + 1, inside);
  }

  /// Splits the main reduction into loops over groups of blocks, over blocks, and inside of a
  /// block. The loops over the window are the other reduction axes.
  void split_reduction() {
    for (const Axis& axis : stage_.reduction)
      if (axis.name != plan_.main_reduction) windows_.push_back(axis.name);
    if (plan_.main_reduction.empty()) return;
    c_.uses(config_.block, config_.unroll, config_.dot);
    const int64_t length = extent_of(stage_, plan_.main_reduction) / config_.depth();
    const int64_t block = config_.block / config_.depth(), factor = config_.unroll;
    std::string rest = plan_.main_reduction;
    if (config_.dot > 1) products_ = {split_inner(rest, config_.dot)};
    if (config_.groups > 1 && length == 1) {
      groups_ = {rest};
      return;
    }
    if (config_.groups > 1) groups_ = {split_inner(rest, config_.groups)};
    if (block < length) {
      std::string blocks = split_off(c_, plan_.name, rest, block);
      c_.uses(config_.kblock);
      if (config_.kblock > 0 && config_.kblock * block < length)
        block_groups_ = {split_off(c_, plan_.name, blocks, config_.kblock)};
      blocks_ = {blocks};
    }
    if (factor > 1 && factor < std::min(block, length)) {
      inside_ = {split_off(c_, plan_.name, rest, factor)};
      unrolled_ = {rest};
    } else if (factor > 1) {
      unrolled_ = {rest};
    } else {
      inside_ = {rest};
    }
  }

  /// Splits the innermost `iterations` iterations off the loop and returns their loop. `loop`
  /// becomes the outer loop.
  std::string split_inner(std::string& loop, int64_t iterations) {
    std::string inner = loop;
    loop = split_off(c_, plan_.name, inner, iterations);
    return inner;
  }

  Loops reduction_order() {
    c_.uses(config_.reduction_order);
    switch (config_.reduction_order) {
      case 0:
        return concat({blocks_, windows_, inside_, unrolled_});
      case 1:
        return concat({windows_, blocks_, inside_, unrolled_});
      default:
        return concat({blocks_, inside_, windows_, unrolled_});
    }
  }

  /// Orders the loops. The loop over groups of blocks of the reduction is placed outside of the
  /// loops that reuse the data of a group, and inside of the `depth` parallel loops.
  void order_loops(const Loops& reduction, size_t depth) {
    const auto first = tile_.outer.begin() + static_cast<ptrdiff_t>(depth);
    const Loops around =
        concat({{tile_.outer.begin(), first}, block_groups_, {first, tile_.outer.end()}});
    c_.schedule.add(Reorder{
        plan_.name,
        concat(
            {around, reduction, tile_.inner, vector_inner_, rows_, {lane_}, groups_, products_})});
    // Sums in tile registers are loaded from memory before the loop and stored to memory after it.
    const Scope scope = config_.core ? Scope::Local : Scope::Register;
    if (!around.empty()) c_.schedule.add(CacheWrite{plan_.name, around.back(), scope});
  }

  void unroll_windows() { unroll(c_, plan_.name, unrolled_windows()); }
  Loops unrolled_windows() const {
    if (config_.window_axes == 0 || windows_.empty()) return {};
    return config_.window_axes == 2 ? windows_ : Loops{windows_.back()};
  }

  /// Adds a prefetch of the weights that the next tile of vectors reads. The requests are made in a
  /// loop inside of the loop over tiles of vectors.
  void prefetch_weights() {
    c_.uses(config_.prefetch);
    if (config_.prefetch == 0 || vector_outer_.empty()) return;
    const std::string weights = streamed_weights(c_.plan(), stage_, config_.axis->axis);
    const StageNest* nest = c_.find(plan_.name);
    if (weights.empty() || !nest) return;
    const std::string& tiles = vector_outer_.front();
    if (const auto at = prefetch_site(c_.schedule.nest(), *nest, weights, tiles, few_lines))
      c_.schedule.add(Prefetch{plan_.name, weights, tiles, *at});
  }

  Construction& c_;
  const StagePlan& plan_;
  const Stage& stage_;
  const CpuTile& config_;
  const bool is_root_;
  std::string lane_;  // the vector loop
  // loops over tiles of the vector axis, and over the vectors of a tile
  Loops vector_outer_, vector_inner_;
  TileLoops tile_;                                             // loops of the other axes
  Loops block_groups_, blocks_, windows_, inside_, unrolled_;  // loops of the reduction
  Loops rows_, groups_;                                        // loops of a core tile
  // loop over the products of a dot product, or of a group of terms of a core tile
  Loops products_;
};

}  // namespace

void append_tile_steps(Construction& c, const StagePlan& plan, const CpuTile& config,
                       bool is_root) {
  TileSteps(c, plan, c.plan().stage(plan), config, is_root).append();
}

bool exceeds_l2(const ComputePlan& plan, const dsl::Read& read) {
  const double elements = dsl::elements_of(plan.compute.shape_of(read.tensor));
  return elements * size_bytes(read.type) > static_cast<double>(plan.target.machine.l2_bytes());
}

bool is_along(const dsl::Read& read, const std::string& axis) {
  return std::any_of(read.indices.begin(), read.indices.end(), [&](const Expr& index) {
    const dsl::Var* v = index.as<dsl::Var>();
    return v && v->name == axis;
  });
}

std::string streamed_weights(const ComputePlan& plan, const Stage& stage,
                             const std::string& vector_axis) {
  std::string weights;
  for_each_read(stage.body, [&](const dsl::Read& read) {
    const dsl::Input* input = plan.compute.find_input(read.tensor);
    if (!input || !input->constant || plan.layouts.contains(read.tensor)) return;
    const bool is_reused = std::any_of(stage.axes.begin(), stage.axes.end(), [&](const Axis& axis) {
      return axis.extent > 1 && !uses_axis(read, axis.name);
    });
    if (is_along(read, vector_axis) && is_reused && exceeds_l2(plan, read)) weights = read.tensor;
  });
  return weights;
}

}  // namespace tw::schedules
