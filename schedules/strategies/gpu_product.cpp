// SPDX-License-Identifier: Apache-2.0
#include "schedules/strategies/gpu_product.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/integer.h"
#include "schedules/nest.h"
#include "schedules/program/legality.h"
#include "schedules/program/specialised.h"
#include "schedules/program/threads.h"

namespace tw::schedules {
namespace {

// Tiles of a warpgroup are used only for products with at least this many columns and with a
// reduction of at least this many times the depth of a tile. Smaller products do not fill a
// warpgroup's tile or a row of its swizzled factors, and use tiles of a warp.
constexpr int64_t least_warpgroup_columns = 64, warpgroup_steps = 4;
// Smallest number of terms in a part of a split reduction; for fewer, storing a partial sum costs
// more than it saves.
constexpr int64_t least_split_terms = 64;

bool has_copy_engine(const Target& target) {
  return target.machine.gpu && target.machine.gpu->has_tma();
}

bool are_rows_last(const StagePlan& plan) {
  const auto& rows = plan.product.rows;
  return std::find(rows.begin(), rows.end(), plan.contiguous) != rows.end();
}

DType result_type(const ComputePlan& compute, const StagePlan& plan) {
  const Nest& nest = compute.prologue.nest();
  return nest.compute.type_of(nest.find(plan.name)->result());
}

/// True if all reduction axes are fused to one loop before it is cut into blocks. They are not
/// fused if TMA copies an operand, because the terms of a box must be terms of one axis.
bool is_fused(const ProductFacts& facts, const GpuProduct& config) {
  return config.fused == 1 && !(facts.other_terms > 1 && has_boxes(config));
}

/// Returns the extent of the reduction loop that is cut into blocks. If the reduction is split, the
/// extent is that of one part.
int64_t blocked_extent(const ProductFacts& facts, const GpuProduct& config) {
  const std::string& main = facts.plan.main_reduction;
  const bool fused = is_fused(facts, config);
  if (main.empty()) return fused ? facts.terms : facts.stage.reduction.back().extent;
  const int64_t terms = extent_of(facts.stage, main), length = ceil_div(terms, config.split);
  return fused ? facts.terms / terms * length : length;
}

/// True if the reduction is split into parts of which the last one is shorter.
bool has_shorter_part(const ProductFacts& facts, const GpuProduct& config) {
  const std::string& main = facts.plan.main_reduction;
  return !main.empty() && extent_of(facts.stage, main) % config.split != 0;
}

/// Returns the largest sensible extent of a box along an axis: the smallest of the offered extents
/// that covers the axis, or the largest offered one.
int64_t most_tile(const ProductFacts& facts, const TmaChoice::Axis& axis) {
  return powers(extent_of(facts.stage, axis.name), axis.least_tile, most_tma_iterations).back();
}

/// True if the box of a side whose axes are tiled separately has as many elements as a block, and
/// its computed extent is allowed.
bool tiles_fit(const ProductFacts& facts, const GpuProduct& config, size_t side) {
  const GpuProduct::Side& chosen = config.sides[side];
  const std::vector<TmaChoice::Axis>& axes = facts.box_axes[side];
  if (!chosen.is_box || axes.empty()) return true;
  int64_t points = 1;
  for (size_t i = 0; i < axes.size(); ++i) points *= chosen.tiles[i];
  return points == chosen.block && chosen.tiles[0] >= axes[0].least_tile &&
         chosen.tiles[0] <= most_tile(facts, axes[0]);
}

/// Returns the number of iterations of the loop in which operands are copied.
int64_t trips(const ProductFacts& facts, const GpuProduct& config) {
  const int64_t blocks = ceil_div(config.length, config.kblock);
  return has_boxes(config) ? blocks * facts.other_terms : blocks;
}

/// True if no operand is copied by TMA. Otherwise all of these conditions must hold: the pipeline
/// has several stages; each box has as many elements as the block of its side (tiles_fit()); no box
/// is cut both by the end of a part and by the end of the axis; and the bytes that a copy moves
/// meet the alignment that TMA requires.
bool boxes_fit(const ProductFacts& facts, const GpuProduct& config) {
  if (config.copies == by_threads) return true;
  if (config.stages <= 1) return false;
  // A tensor map ends boxes at one bound only. If the last part of a split reduction is shorter,
  // this bound is its end. The boxes of the other parts then do not end with their part, so its
  // length must be a multiple of the terms of a box.
  if (has_shorter_part(facts, config) && config.length % config.kblock != 0) return false;
  for (size_t side = 0; side < product_sides; ++side)
    if (!tiles_fit(facts, config, side)) return false;
  for (size_t side = 0; side < product_sides; ++side) {
    const GpuProduct::Side& chosen = config.sides[side];
    const int64_t size = size_bytes(unwidened(facts.operands[side]).type());
    // Each part of a split reduction must begin at a multiple of a 16-byte unit.
    if (facts.boxes[side] == TmaNeighbours::Terms && config.split > 1 &&
        config.length * size % engine_bytes != 0)
      return false;
    if (facts.boxes[side] != TmaNeighbours::Rows) continue;
    const int64_t row_bytes = chosen.block * size;
    if (row_bytes % engine_bytes != 0 || config.kblock * row_bytes % tma_alignment != 0)
      return false;
  }
  return true;
}

/// True if there are no producer warps, or if the block has room for them.
bool producers_fit(const ProductFacts& facts, const GpuProduct& config) {
  return config.copies < by_producers ||
         (config.threads % warp_threads == 0 &&
          config.threads + producer_threads <= facts.compute.target.machine.gpu->block_threads);
}

}  // namespace

ProductFacts::ProductFacts(const ComputePlan& of, const StagePlan& planned, UsableBoxes usable)
    : compute(of),
      plan(planned),
      stage(of.stage(planned)),
      rows_last(are_rows_last(planned)),
      extents{points_of(stage, planned.product.rows), points_of(stage, planned.product.columns)},
      batches(points_of(stage, planned.product.batch)),
      terms(points_of(stage, names_of(stage.reduction))),
      most_block(tensor_tile_for(of, planned, true) ? 256 : 128),
      operands(operands_of(stage)),
      result_bytes(size_bytes(result_type(of, planned))) {
  if (!has_copy_engine(of.target)) return;
  std::map<std::string, dsl::Layout> layouts = of.layouts;
  const auto choose = [&](size_t side) {
    TmaChoice choice = tma_choice(of, planned, side, layouts);
    const bool can_use = choice.neighbours == TmaNeighbours::Rows
                             ? usable.rows
                             : usable.terms && (usable.axes || choice.axes.empty());
    if (!can_use) return;
    boxes[side] = choice.neighbours;
    box_axes[side] = std::move(choice.axes);
  };
  for (size_t side = 0; side < product_sides; ++side) choose(side);
  // An operand that TMA cannot copy, such as the weights of a convolution, gets another layout if
  // the other operand is copied as boxes of pixels.
  for (size_t side = 0; side < product_sides; ++side) {
    if (boxes[side] != TmaNeighbours::None || box_axes[1 - side].empty()) continue;
    const ChosenLayout chosen = layout_along_terms(of, planned, side);
    if (chosen.tensor.empty()) continue;
    layouts.insert_or_assign(
        chosen.tensor,
        dsl::Layout::parse(chosen.text, of.compute.letters_of(chosen.tensor)).value());
    choose(side);
    if (boxes[side] != TmaNeighbours::None) box_layouts[side] = chosen;
  }
  if (!planned.main_reduction.empty())
    other_terms = terms / extent_of(stage, planned.main_reduction);
}

const Loops& ProductFacts::axes(size_t side) const {
  return side == product_rows ? plan.product.rows : plan.product.columns;
}

const TensorTile* tensor_tile_for(const ComputePlan& compute, const StagePlan& plan,
                                  bool is_of_warpgroup) {
  if (!plan.is_product() || !compute.target.is_gpu()) return nullptr;
  const dsl::Stage& stage = compute.stage(plan);
  const bool rows_last = are_rows_last(plan);
  const int64_t rows = points_of(stage, rows_last ? plan.product.columns : plan.product.rows);
  const int64_t columns = points_of(stage, rows_last ? plan.product.rows : plan.product.columns);
  const int64_t length = points_of(stage, names_of(stage.reduction));
  if (rows < (is_of_warpgroup ? warpgroup_rows : tile_rows) ||
      columns < (is_of_warpgroup ? least_warpgroup_columns : tile_columns))
    return nullptr;
  const Limits limits = limits_of(compute.target);
  for (const TensorTile& tile : tensor_tiles())
    if (tile.is_of_warpgroup == is_of_warpgroup && tile.input_error <= exact_input_error &&
        sums_products_of(stage, tile) &&
        has_tile(tile, limits.gpu_architecture, limits.architecture_specific) &&
        length >= (is_of_warpgroup ? warpgroup_steps : 1) * tile.depth)
      return &tile;
  return nullptr;
}

bool has_boxes(const GpuProduct& config) {
  return std::ranges::any_of(config.sides, &GpuProduct::Side::is_box);
}

void complete_product(const ProductFacts& facts, GpuProduct& config) {
  for (size_t side = 0; side < product_sides; ++side) {
    GpuProduct::Side& chosen = config.sides[side];
    config.blocks[side] = ceil_div(facts.extents[side], chosen.block);
    chosen.is_box = config.copies != by_threads && facts.boxes[side] != TmaNeighbours::None;
    const std::vector<TmaChoice::Axis>& axes = facts.box_axes[side];
    if (axes.empty()) continue;
    chosen.tiles[0] = chosen.block;
    for (size_t i = 1; i < axes.size(); ++i) chosen.tiles[0] /= chosen.tiles[i];
    chosen.tiles[0] = std::max<int64_t>(chosen.tiles[0], 1);
    if (chosen.is_box) config.blocks[side] = boxes_of(facts, config, side);
  }
  config.length = blocked_extent(facts, config);
}

int64_t boxes_of(const ProductFacts& facts, const GpuProduct& config, size_t side) {
  int64_t boxes = 1;
  for (size_t i = 0; i < facts.box_axes[side].size(); ++i)
    boxes *=
        ceil_div(extent_of(facts.stage, facts.box_axes[side][i].name), config.sides[side].tiles[i]);
  return boxes;
}

int64_t shared_bytes_of(const GpuProduct& config, int64_t stage_bytes) {
  // The mbarriers need less than `dynamic_alignment` bytes, and dynamic shared memory begins after
  // them.
  return config.stages * stage_bytes + (config.copies == by_threads ? 0 : dynamic_alignment);
}

bool product_fits(const ProductFacts& facts, const GpuProduct& config) {
  const Gpu& limits = *facts.compute.target.machine.gpu;
  if (config.blocks[facts.outer()] % config.raster != 0) return false;
  if (config.split > 1 && config.length < least_split_terms) return false;
  if (config.stages > 1 && config.stages > trips(facts, config)) return false;
  return boxes_fit(facts, config) && producers_fit(facts, config) &&
         config.threads <= limits.block_threads && config.sums <= most_sums &&
         config.shared_bytes <= limits.block_shared_bytes;
}

bool may_split(int64_t terms, int64_t parts) {
  const int64_t length = ceil_div(terms, parts);
  return terms % parts == 0 || (length >= least_split_terms && (parts - 1) * length < terms);
}

double product_prior(const ProductFacts& facts, const GpuProduct& config) {
  auto blocks = static_cast<double>(config.split * facts.batches);
  for (const int64_t along : config.blocks) blocks *= static_cast<double>(along);
  const double idle = std::max(0.0, std::log2(facts.compute.target.machine.cores / blocks));
  const double split =
      config.split > 1 ? 1 + 0.5 * std::log2(static_cast<double>(config.split)) : 0;
  return preference(config.raster, 1, 0.1) + preference(config.resident, 1, 0.5) -
         (2 * idle + split);
}

std::vector<int64_t> block_sizes(const ProductFacts& facts, size_t side) {
  constexpr int64_t between = 192;
  std::vector<int64_t> sizes = powers(facts.extents[side], 8, facts.most_block);
  if (facts.most_block > between && facts.extents[side] > between / 3 * 2)
    sizes.insert(std::ranges::upper_bound(sizes, between), between);
  return sizes;
}

bool reduces_along_memory(const ProductFacts& facts, size_t side) {
  const dsl::Stage& stage = facts.stage;
  const auto uses_any = [](const Expr& index, const std::vector<dsl::Axis>& axes) {
    return std::any_of(axes.begin(), axes.end(),
                       [&](const dsl::Axis& axis) { return dsl::uses_var(index, axis.name); });
  };
  bool along = false;
  for_each_read(facts.operands[side], [&](const dsl::Read& read) {
    if (read.indices.empty()) return;
    const Expr& last = read.indices[contiguous_dimension(facts.compute, read)];
    along |= uses_any(last, stage.reduction) && !uses_any(last, stage.axes);
  });
  return along;
}

// ---- steps ----------------------------------------------------------------------------------

ProductSteps::ProductSteps(Construction& c, const ProductFacts& facts, const GpuProduct& config)
    : c_(c),
      facts_(facts),
      product_(config),
      name_(facts.plan.name),
      batch_(facts.plan.product.batch),
      reduction_(names_of(facts.stage.reduction)) {
  const std::string& main = facts.plan.main_reduction;
  c_.uses(config.split);
  // Split-K: products with few results and long sums get more blocks of threads.
  if (config.split > 1) {
    c_.schedule.add(Rfactor{name_, main, config.split, Partition::Blocks});
    name_ += ".rf";
    if (const StageNest* nest = c_.find(name_)) {
      reduction_ = names_of(nest->stage.reduction);
      order_partials(names_of(nest->stage.axes));
    }
    batch_.insert(batch_.begin(), main + "_rf");
  }
  std::erase(reduction_, main);
  if (!main.empty()) reduction_.push_back(main);
}

void ProductSteps::order_partials(const Loops& axes) {
  const Loops order = contiguous_last(axes, facts_.plan.contiguous);
  if (order == axes) return;
  const std::string letters = c_.schedule.nest().compute.letters_of(name_);
  std::string layout;
  for (const std::string& axis : order)
    layout += letters[static_cast<size_t>(std::ranges::find(axes, axis) - axes.begin())];
  c_.schedule.add(SetLayout{name_, layout});
}

void ProductSteps::order_axes() {
  c_.schedule.add(Reorder{name_, concat({batch_, facts_.axes(product_rows),
                                         facts_.axes(product_columns), reduction_})});
}

void ProductSteps::set_layouts() {
  for (size_t side = 0; side < product_sides; ++side) {
    const ChosenLayout& chosen = facts_.box_layouts[side];
    if (chosen.tensor.empty()) continue;
    c_.uses(product_.copies);
    if (product_.sides[side].is_box) c_.schedule.add(SetLayout{chosen.tensor, chosen.text});
  }
}

std::string ProductSteps::split_side(size_t side, std::string& loop) {
  const GpuProduct::Side& chosen = product_.sides[side];
  const std::vector<TmaChoice::Axis>& axes = facts_.box_axes[side];
  if (!axes.empty()) c_.uses(product_.copies);
  c_.uses(chosen.block);
  if (!chosen.is_box || axes.empty()) {
    loop = fuse_all(c_, name_, facts_.axes(side));
    return split_off(loop, chosen.block);
  }
  for (const int64_t& tile : chosen.tiles) c_.uses(tile);
  // The loops n y x become n.0 y.0 x.0 n.1 y.1 x.1, and then one loop over boxes and one over the
  // pixels of a box.
  Loops outside, inside;
  for (std::string axis : facts_.axes(side)) {
    const auto at = std::ranges::find(axes, axis, &TmaChoice::Axis::name);
    if (at != axes.end()) {
      outside.push_back(split_off(axis, chosen.tiles[static_cast<size_t>(at - axes.begin())]));
      inside.push_back(axis);
    } else {
      outside.push_back(axis);
    }
  }
  c_.schedule.add(Reorder{name_, concat({outside, inside})});
  const std::string block = fuse_all(c_, name_, outside);
  loop = fuse_all(c_, name_, inside);
  return block;
}

std::string ProductSteps::split_blocks(int64_t block) {
  if (facts_.other_terms > 1) c_.uses(product_.copies);
  c_.uses(product_.fused);
  outside_ = reduction_;
  std::string loop = outside_.back();
  outside_.pop_back();
  if (is_fused(facts_, product_)) {
    loop = fuse_all(c_, name_, reduction_);
    outside_.clear();
  }
  outside_.push_back(split_off(loop, block));
  if (facts_.other_terms > 1 && outside_.size() > 1 && has_boxes(product_))
    outside_ = {fuse_all(c_, name_, outside_)};
  return loop;
}

Loops ProductSteps::order_blocks(std::string outer, const std::string& inner) {
  c_.uses(product_.raster);
  if (product_.raster == 1) return concat({batch_, {outer, inner}});
  const std::string groups = split_off(outer, product_.raster);
  return concat({batch_, {groups, inner, outer}});
}

std::string ProductSteps::cache_operand(size_t side, const Loops& loops) {
  const CacheOperand step{name_, static_cast<int64_t>(side) + 1, outside_.back(), loops};
  c_.schedule.add(step);
  if (c_.schedule.error()) return {};
  const auto& stages = c_.schedule.nest().stages;
  const auto at = std::find_if(stages.begin(), stages.end(),
                               [&](const StageNest& s) { return s.stage.name == name_; });
  return std::prev(at)->stage.name;
}

void ProductSteps::pipeline(const std::string& operand) {
  c_.uses(product_.stages);
  if (product_.stages > 1) c_.schedule.add(Pipeline{operand, product_.stages});
}

void ProductSteps::bulk(size_t side, const std::string& operand) {
  c_.uses(product_.copies);
  if (product_.sides[side].is_box) c_.schedule.add(Bulk{operand});
}

void ProductSteps::share_copy(const std::string& operand, const Loops& loops, const Loops& vectors,
                              int64_t threads, int64_t most_guarded) {
  std::string thread = fuse_all(c_, operand, loops);
  // The loop over the elements that a thread copies one after the other is inside of the thread
  // loop. Outside of it, the loop would make several nests with barriers between them.
  const std::string repeats = schedules::split_off(c_, operand, thread, threads);
  c_.schedule.add(Reorder{operand, {thread, repeats}});
  c_.schedule.add(Bind{operand, thread});
  for (const std::string& lanes : vectors) c_.schedule.add(Vectorize{operand, lanes});
  const StageNest* nest = c_.find(operand);
  if (!nest) return;
  int64_t elements = c_.extent(operand, repeats);
  const bool is_short = elements <= 16;
  for (const std::string& lanes : vectors) elements *= c_.extent(operand, lanes);
  const StageNest* computed = nest->copies_results() ? c_.find(nest->at->consumer) : nullptr;
  const bool is_guarded =
      nest->stage.body.as<dsl::Select>() != nullptr || (computed && !computed->guards.empty());
  if (is_short && (!is_guarded || elements <= most_guarded))
    c_.schedule.add(Unroll{operand, repeats});
}

void ProductSteps::shape_blocks() {
  c_.uses(product_.copies, product_.resident);
  if (product_.copies >= by_producers) c_.schedule.add(Specialise{name_});
  if (product_.copies == by_persistent_producers) c_.schedule.add(Persist{name_});
  if (product_.resident > 1) c_.schedule.add(LaunchBounds{name_, product_.resident});
}

void ProductSteps::sum_partials() {
  constexpr int64_t threads = 256;
  if (product_.split == 1) return;
  const std::string& sum = facts_.plan.name;
  const Loops axes = names_of(facts_.stage.axes);
  const Loops order = contiguous_last(axes, facts_.plan.contiguous);
  if (order != axes) c_.schedule.add(Reorder{sum, order});
  std::string thread = fuse_all(c_, sum, order);
  const std::string block = schedules::split_off(c_, sum, thread, threads);
  c_.schedule.add(CacheWrite{sum, thread});
  c_.schedule.add(Parallel{sum, block});
  c_.schedule.add(Bind{sum, thread});
  c_.schedule.add(Unroll{sum, facts_.plan.main_reduction + "_rf"});
}

}  // namespace tw::schedules
