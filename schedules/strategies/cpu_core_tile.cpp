// SPDX-License-Identifier: Apache-2.0
// A sum of products on a CPU with tile registers (Intel AMX), by a register tile of core tiles
// (core_tiles.h). In one operand, neighbours along the main reduction are contiguous in memory, and
// its rows are the rows of the core tiles. The other operand is packed by groups of neighbours. The
// loops, and the layouts that follow them, are those of tiles of vectors (cpu_tile.cpp).

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedules/nest.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/dot_products.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/cpu_loops.h"
#include "schedules/strategies/cpu_tile.h"

namespace tw::schedules {
namespace {

using dsl::Axis;
using dsl::Stage;

// The largest number of blocks of the reduction in a group.
constexpr int64_t most_grouped_blocks = 16;

/// divisors() returns the divisors of the extent up to `most`, including 1. largest_divisor()
/// returns the largest of them.
std::vector<int64_t> divisors(int64_t extent, int64_t most) { return tile_sizes(extent, most, 0); }
int64_t largest_divisor(int64_t extent, int64_t most) { return divisors(extent, most).back(); }

/// True if a condition in the stage depends on the axis. Tiles along the axis would then not be
/// whole.
bool is_guarded(const Stage& stage, const std::string& axis) {
  bool guarded = false;
  dsl::for_each(stage.body,
                [&](const Expr& e) { guarded |= e.type() == Bool && dsl::uses_var(e, axis); });
  return guarded;
}

/// Axes along which the columns and the rows of core tiles may lie.
struct CoreTileAxes {
  int64_t vector;             ///< index, in StagePlan::vector_axes, of the axis of the columns
  std::vector<int64_t> rows;  ///< indices, in StagePlan::tile_axes, of possible axes of the rows
  bool are_terms_contiguous;  ///< true if the factor of the rows is declared with its terms
                              ///< contiguous
};

/// The core tiles that a stage may use.
struct CoreTileFacts {
  const TensorTile* tile;
  std::vector<CoreTileAxes> axes;
  int64_t groups;  ///< number of groups of terms of a core tile
};

/// Returns the factors of the stage's products. nullopt if not exactly one factor (`own`) depends
/// on the axis, if a condition depends on it, or if `own` is only some bits of an element.
std::optional<DotFactors> factors_along(const StagePlan& plan, const Stage& stage,
                                        const std::string& axis) {
  auto factors = dot_factors(unpadded(stage.body), axis, plan.main_reduction);
  if (factors && (factors->digit || is_guarded(stage, axis))) factors.reset();
  return factors;
}

/// Returns the axes along which the rows of core tiles may lie if their columns lie along the
/// vector axis with the index `vector`. nullopt if no core tile is possible. The factor along the
/// vector axis must be packed. The other factor must have a free layout, which can then follow the
/// tiles, or be declared with its terms contiguous.
std::optional<CoreTileAxes> axes_along(const ComputePlan& plan, const StagePlan& stage_plan,
                                       int64_t vector) {
  const Stage& stage = plan.stage(stage_plan);
  const VectorAxis& columns = stage_plan.vector_axes[static_cast<size_t>(vector)];
  const auto factors = factors_along(stage_plan, stage, columns.axis);
  if (!factors || largest_divisor(extent_of(stage, columns.axis), most_core_extent) < 2 ||
      !is_packed_along(plan.prologue.nest(), columns, factors->own->tensor))
    return std::nullopt;
  const dsl::Read& by_row = *factors->shared;
  const dsl::Input* input = plan.compute.find_input(by_row.tensor);
  const bool has_free_layout = input && !input->constant && !plan.layouts.contains(by_row.tensor);
  CoreTileAxes axes{
      vector,
      {},
      dsl::uses_var(by_row.indices[contiguous_dimension(plan, by_row)], stage_plan.main_reduction)};
  if (!axes.are_terms_contiguous && !has_free_layout) return std::nullopt;
  for (size_t i = 0; i < stage_plan.tile_axes.size(); ++i) {
    const std::string& axis = stage_plan.tile_axes[i];
    const auto along = factors_along(stage_plan, stage, axis);
    if (along && along->own->tensor == by_row.tensor &&
        largest_divisor(extent_of(stage, axis), most_core_extent) > 1)
      axes.rows.push_back(static_cast<int64_t>(i));
  }
  return axes.rows.empty() ? std::nullopt : std::optional(axes);
}

std::optional<CoreTileFacts> core_tile_facts(const ComputePlan& plan, const StagePlan& stage_plan) {
  const Stage& stage = plan.stage(stage_plan);
  const TensorTile* tile = core_tile_for(plan.target, stage);
  if (!tile || stage_plan.main_reduction.empty() || is_guarded(stage, stage_plan.main_reduction))
    return std::nullopt;
  const int64_t length = extent_of(stage, stage_plan.main_reduction), terms = group_terms(*tile);
  if (length % terms != 0) return std::nullopt;
  CoreTileFacts facts{tile, {}, largest_divisor(length / terms, most_core_extent)};
  for (size_t i = 0; i < stage_plan.vector_axes.size(); ++i)
    if (auto axes = axes_along(plan, stage_plan, static_cast<int64_t>(i)))
      facts.axes.push_back(*std::move(axes));
  // Programs have no loops of one iteration.
  return facts.groups > 1 && !facts.axes.empty() ? std::optional(facts) : std::nullopt;
}

class CpuCoreTileStage : public Configured<CpuTile> {
 public:
  CpuCoreTileStage(const ComputePlan& compute, const StagePlan& plan, CoreTileFacts facts)
      : Configured(compute, plan), facts_(std::move(facts)) {
    std::vector<int64_t> vectors;
    std::set<int64_t> rows;
    for (const CoreTileAxes& axes : facts_.axes) {
      vectors.push_back(axes.vector);
      rows.insert(axes.rows.begin(), axes.rows.end());
    }
    add_knob("vector", vectors, &CpuTile::vector);
    add_knob("row", {rows.begin(), rows.end()}, &CpuTile::row);
    add_knob("layout.in", {0, 1, 2}, &CpuTile::layout_in);
    add_knob("rows", row_counts(rows), &CpuTile::rows);
    add_knob("row_tiles", {1, 2, 3, 4, 6}, &CpuTile::row_tiles);
    add_knob("vectors", {1, 2, 3, 4, 6}, &CpuTile::vectors);
    add_knob("block", block_sizes_of_steps(), &CpuTile::block);
    add_knob("unroll", {1, 2, 4}, &CpuTile::unroll);
    add_knob("kblock", group_counts(), &CpuTile::kblock);
    if (stage_.reduction.size() > 1) add_knob("reduction_order", {0, 1}, &CpuTile::reduction_order);
    add_knob("outer_order", {0, 1, 2}, &CpuTile::outer_order);
    add_knob("tasks", {1, 2, 3, 4}, &CpuTile::tasks);
    add_knob("layout.out", {0, 1, 2}, &CpuTile::layout_out);
  }

 private:
  int64_t length() const { return extent_of(stage_, plan_.main_reduction); }
  int64_t depth() const { return group_terms(*facts_.tile) * facts_.groups; }
  int64_t extent_of_row(const CpuTile& config) const {
    return extent_of(stage_, plan_.tile_axes[static_cast<size_t>(config.row)]);
  }

  /// Returns numbers of rows of a core tile: the three largest divisors above 1 of the extent of
  /// each axis along which rows may lie.
  std::vector<int64_t> row_counts(const std::set<int64_t>& rows) const {
    std::set<int64_t> counts;
    for (const int64_t row : rows) {
      const std::vector<int64_t> all =
          divisors(extent_of(stage_, plan_.tile_axes[static_cast<size_t>(row)]), most_core_extent);
      counts.insert(all.end() - std::min<ptrdiff_t>(3, std::ssize(all) - 1), all.end());
    }
    return {counts.begin(), counts.end()};
  }

  /// Returns sizes of blocks of the main reduction that consist of whole core tiles.
  std::vector<int64_t> block_sizes_of_steps() const {
    std::vector<int64_t> sizes;
    for (const int64_t steps : divisors(length() / depth(), most_grouped_blocks))
      sizes.push_back(steps * depth());
    if (sizes.back() != length()) sizes.push_back(length());
    return sizes;
  }

  std::vector<int64_t> group_counts() const {
    if (stores_another_type(compute_, plan_.name)) return {0};
    return {0, 2, 4, 8, most_grouped_blocks};
  }

  void complete(CpuTile& config) const override {
    config.core = facts_.tile;
    config.axis = &plan_.vector_axes[static_cast<size_t>(config.vector)];
    config.lanes = largest_divisor(extent_of(stage_, config.axis->axis), most_core_extent);
    config.dot = group_terms(*facts_.tile);
    config.groups = facts_.groups;
    config.tiles[static_cast<size_t>(config.row)] = config.rows * config.row_tiles;
    config.accumulators = config.row_tiles * config.vectors;
    config.unrolled = config.unroll;
  }

  /// The head has the knobs that decide whether all tiles are whole.
  size_t knobs_of_head() const override { return 8; }
  bool may_begin_with(std::span<const int64_t> values) const override {
    if (values.size() < knobs_of_head()) return true;
    std::vector<int64_t> all(values.begin(), values.end());
    for (size_t k = values.size(); k < knobs().size(); ++k) all.push_back(knobs()[k].values[0]);
    return fits(decode(all));
  }

  /// True if the rows can lie along the chosen axis, the sums and the factors fit the tile
  /// registers, and all tiles are whole.
  bool fits(const CpuTile& config) const override {
    const bool has_row = std::ranges::any_of(facts_.axes, [&](const CoreTileAxes& axes) {
      return axes.vector == config.vector && std::ranges::count(axes.rows, config.row) > 0 &&
             (config.layout_in > 0 || axes.are_terms_contiguous);
    });
    if (!has_row) return false;
    const int64_t factors = std::min(config.row_tiles, config.vectors) + 1;
    if (config.accumulators > most_core_sums || config.accumulators + factors > core_tile_registers)
      return false;
    if (extent_of_row(config) % (config.rows * config.row_tiles) != 0) return false;
    if (extent_of(stage_, config.axis->axis) % (config.lanes * config.vectors) != 0) return false;
    if (config.unroll > config.block / depth()) return false;
    return config.kblock == 0 || config.kblock * config.block < length();
  }

  /// Returns a prior that prefers many products for each load of a factor, and simple values of the
  /// other knobs.
  double prior(const CpuTile& config, bool /*placed*/) const override {
    const auto rows = static_cast<double>(config.rows);
    const double tiles = static_cast<double>(config.accumulators * 4) /
                         static_cast<double>(config.row_tiles + config.vectors);
    const int64_t plain = -config.unroll - 4 * (config.kblock > 0) + 2 * config.tasks +
                          4 * (config.layout_in == 2) + 4 * (config.layout_out == 2) -
                          8 * config.outer_order - 4 * config.reduction_order;
    return far_better_than_vectors + rows + 8 * tiles + static_cast<double>(plain);
  }
  /// A value above all priors of tiles of vectors.
  static constexpr double far_better_than_vectors = 100;

  Site append_steps(const CpuTile& config, const Site* inside, Construction& c) const override {
    compute_at(c, plan_.name, inside);
    append_tile_steps(c, plan_, config, !inside);
    return inside ? Site{} : site_of(c, plan_.name);
  }

  const CoreTileFacts facts_;
};

}  // namespace

std::unique_ptr<const StageStrategy> cpu_core_tile(const ComputePlan& plan,
                                                   const StagePlan& stage) {
  if (plan.target.is_gpu() || !stage.reduces || stage.scans || stage.selects()) return nullptr;
  auto facts = core_tile_facts(plan, stage);
  return facts ? std::make_unique<CpuCoreTileStage>(plan, stage, *std::move(facts)) : nullptr;
}

}  // namespace tw::schedules
