// SPDX-License-Identifier: Apache-2.0
#include "schedules/gpu_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/integer.h"
#include "schedules/box_choice.h"
#include "schedules/bulk_copies.h"
#include "schedules/legality.h"
#include "schedules/nest.h"
#include "schedules/specialised.h"
#include "schedules/tensor_tiles.h"
#include "schedules/threads.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

// A thread's sums are registers, and leave room for what they are made of.
constexpr int64_t most_sums = 128;
// Statements of a product's innermost loop: beyond, compiling takes longer than they save.
constexpr int64_t most_products = 512;
constexpr int64_t least_threads = 32;
// Products that are smaller than a tile of a warpgroup, and a row of its swizzled factors, are for
// tiles of a warp.
constexpr int64_t least_warpgroup_columns = 64, warpgroup_steps = 4;
// Elements that a thread copies under conditions at once, beside the sums of tensor tiles: of the
// standing convolutions some spill with twice as many.
constexpr int64_t most_guarded_copies = 32, most_guarded_of_warpgroup = 16;
// Registers of a block, and those of a thread that hold neither sums nor factors.
constexpr int64_t most_block_registers = 64 << 10, own_registers = 48;
// Vectors stay aligned, and the 8 neighbours along the reduction that a part of a warp copies lie
// in different banks.
constexpr int64_t pad_words = 4, word_bytes = 4;

/// The product of the extents of `axes`.
int64_t points_of(const Stage& stage, const Loops& axes) {
  int64_t extent = 1;
  for (const std::string& axis : axes) extent *= extent_of(stage, axis);
  return extent;
}

/// Powers of two up to the first that covers the extent.
std::vector<int64_t> powers(int64_t extent, int64_t least, int64_t most) {
  std::vector<int64_t> values;
  for (int64_t value = least; value <= most; value *= 2) {
    values.push_back(value);
    if (value >= extent) break;
  }
  return values;
}

bool is_product(const StagePlan& plan) { return !plan.product.rows.empty(); }

// ---- tensor tiles ---------------------------------------------------------------------------

/// Whether the dimension that is contiguous in the output is the product's rows.
bool rows_are_last(const StagePlan& plan, const Stage& stage) {
  const auto& rows = plan.product.rows;
  return std::find(rows.begin(), rows.end(), stage.axes.back().name) != rows.end();
}

/// Tiles that compute what the stage means as exactly as its type does, where it is not too small
/// for them.
std::vector<const TensorTile*> tiles_for(const StagePlan& plan, const Stage& stage,
                                         const Target& target) {
  std::vector<const TensorTile*> tiles;
  if (!is_product(plan)) return tiles;
  const bool rows_last = rows_are_last(plan, stage);
  const int64_t rows = points_of(stage, rows_last ? plan.product.columns : plan.product.rows);
  const int64_t columns = points_of(stage, rows_last ? plan.product.rows : plan.product.columns);
  const int64_t length = points_of(stage, names_of(stage.reduction));
  const Limits limits = limits_of(target);
  for (const TensorTile& tile : tensor_tiles()) {
    // The last bits of an f32.
    const bool is_exact = tile.input_error <= 0x1p-20, is_wide = tile.is_of_warpgroup;
    if (is_exact && sums_products_of(stage, tile) &&
        has_tile(tile, limits.gpu_architecture, limits.architecture_specific) &&
        rows >= (is_wide ? warpgroup_rows : tile_rows) &&
        columns >= (is_wide ? least_warpgroup_columns : tile_columns) &&
        length >= (is_wide ? warpgroup_steps : 1) * tile.depth)
      tiles.push_back(&tile);
  }
  return tiles;
}

/// Whether the last of the tiles is of a warpgroup.
bool has_warpgroups(const StagePlan& plan, const Stage& stage, const Target& target) {
  const auto tiles = tiles_for(plan, stage, target);
  return !tiles.empty() && tiles.back()->is_of_warpgroup;
}

/// The tile that the knob says; null for none.
const TensorTile* tile_of(const StagePlan& plan, const Stage& stage, const Target& target,
                          int64_t knob) {
  return knob == 0 ? nullptr : tiles_for(plan, stage, target)[static_cast<size_t>(knob) - 1];
}

/// Whether neighbours in memory are terms of one sum.
bool reduces_along_memory(const Stage& stage, const Expr& factor) {
  const auto uses_any = [](const Expr& index, const std::vector<Axis>& axes) {
    return std::any_of(axes.begin(), axes.end(),
                       [&](const Axis& axis) { return dsl::uses_var(index, axis.name); });
  };
  bool along = false;
  for_each_read(factor, [&](const dsl::Read& read) {
    if (read.indices.empty()) return;
    const Expr& last = read.indices.back();
    along |= uses_any(last, stage.reduction) && !uses_any(last, stage.axes);
  });
  return along;
}

// ---- bulk copies ----------------------------------------------------------------------------

constexpr std::pair<std::string_view, size_t> operands[] = {{"rows", 0}, {"columns", 1}};
/// Of operands whose blocks are boxes. Without tensor tiles, what is in shared memory is contiguous
/// across the reduction.
void add_bulk(const ComputePlan& compute, const StagePlan& plan, bool has_tiles, Knobs& knobs) {
  const Target& target = compute.target;
  if (target.architecture != Architecture::Cuda || gpu_architecture(target) < bulk_architecture)
    return;
  size_t boxes = 0;
  for (const auto& [name, operand] : operands) {
    const BoxNeighbours neighbours = box_neighbours(compute, plan, operand);
    if (neighbours != BoxNeighbours::Rows && (neighbours != BoxNeighbours::Terms || !has_tiles))
      continue;
    knobs.add(fmt::format("{}.bulk.{}", plan.name, name), {0, 1});
    ++boxes;
  }
  if (boxes == std::size(operands)) knobs.add(plan.name + ".specialise", {0, 1});
}

/// At most, of the groups that a pipeline has on its way.
int64_t barrier_bytes(const StagePlan& plan, const Knobs& knobs, const Point& point) {
  for (const auto& [name, operand] : operands)
    if (knobs.value(point, fmt::format("{}.bulk.{}", plan.name, name), 0) == 1)
      return dynamic_alignment;  // they are fewer, and what a launch asks for begins after them
  return 0;
}

/// Neighbours across the reduction in shared memory, of what a warpgroup has of a block; 0 where
/// its instruction cannot read it so.
int64_t mn_neighbours(const TensorTile& tile, int64_t block, int64_t warps, bool are_rows) {
  const int64_t own = block / warps, neighbours = are_rows ? mn_group : std::min(own, mn_group);
  return has_mn_major(tile, neighbours) && own % neighbours == 0 ? neighbours : 0;
}

/// Whether those that are copied in bulk are boxes, and no other knob of their copies says
/// anything.
bool has_sensible_boxes(const ComputePlan& compute, const StagePlan& plan, const TensorTile* tile,
                        const Knobs& knobs, const Point& point) {
  const auto value = [&](std::string_view name, std::string_view of = "") {
    return knobs.value(point, fmt::format("{}.{}{}", plan.name, name, of), 0);
  };
  for (const auto& [name, operand] : operands) {
    if (value("bulk.", name) == 0) continue;
    const Stage& stage = compute.stage(plan);
    const int64_t size = size_bytes(unwidened(operands_of(stage)[operand]).type());
    if (value("stages") <= 1 || value("copy.", name) != 0 || value("pad.", name) != 0) return false;
    if (value("split") > 1) return false;  // parts need not begin at 16 bytes
    const BoxNeighbours neighbours = box_neighbours(compute, plan, operand);
    const int64_t row_bytes = value("block.", name) * size;
    const int64_t kblock = tile ? value("tiles") * tile->depth : value("kblock");
    if (neighbours == BoxNeighbours::Rows) {
      if (tile && tile->is_of_warpgroup) {
        // Groups of a block are a dimension, and the last must be whole.
        const int64_t block = value("block.", name);
        const Loops& axes = operand == 0 ? plan.product.rows : plan.product.columns;
        const bool are_rows = (operand == 1) == rows_are_last(plan, stage);
        const int64_t along = mn_neighbours(*tile, block, value("warps.", name), are_rows);
        if (along == 0) return false;
        if (block > along && points_of(stage, axes) % along != 0) return false;
      }
      if (row_bytes % 16 != 0 || kblock * row_bytes % box_alignment != 0) return false;
    } else {
      // The tiles of a block are a dimension, and what is left over must be whole ones; those of
      // warpgroups are next to each other.
      const int64_t length = points_of(stage, names_of(stage.reduction));
      if (neighbours == BoxNeighbours::None || !tile) return false;
      if (value("tiles") > 1 && !tile->is_of_warpgroup && length % tile->depth != 0) return false;
    }
  }
  return true;
}

/// Whether threads beside so many ask for boxes only where they copy both operands.
bool is_sensibly_specialised(const ComputePlan& compute, const StagePlan& plan, const Knobs& knobs,
                             const Point& point, int64_t threads) {
  if (knobs.value(point, plan.name + ".specialise", 0) == 0) return true;
  for (const auto& [name, operand] : operands)
    if (knobs.value(point, fmt::format("{}.bulk.{}", plan.name, name), 0) == 0) return false;
  return threads % warp_threads == 0 &&
         threads + asking_threads <= compute.target.machine.gpu->block_threads;
}

// ---- knobs ----------------------------------------------------------------------------------

/// Whether there are any.
bool add_tensor(const StagePlan& plan, const Stage& stage, const Target& target, Knobs& knobs) {
  const auto tiles = tiles_for(plan, stage, target);
  if (tiles.empty()) return false;
  const std::string p = plan.name + ".";
  std::vector<int64_t> choices = {0};  // none, or the number of the tile
  for (size_t i = 1; i <= tiles.size(); ++i) choices.push_back(static_cast<int64_t>(i));
  knobs.add(p + "tensor", choices);
  knobs.add(p + "warps.rows", {1, 2, 4});
  knobs.add(p + "warps.columns", {1, 2, 4});
  knobs.add(p + "tiles", {1, 2, 4});  // along the reduction, in a block of it
  return true;
}

void add_product(const ComputePlan& compute, const StagePlan& plan, Knobs& knobs) {
  const Stage& stage = compute.stage(plan);
  const Target& target = compute.target;
  const bool has_tiles = add_tensor(plan, stage, target, knobs);
  const int64_t most_block = has_warpgroups(plan, stage, target) ? 256 : 128;
  const std::string p = plan.name + ".";
  for (const auto& [name, axes] :
       {std::pair("rows", plan.product.rows), std::pair("columns", plan.product.columns)}) {
    knobs.add(p + "block." + name, powers(points_of(stage, axes), 8, most_block));
    knobs.add(p + "tile." + name, {1, 2, 4, 8});   // of a thread
    knobs.add(p + "together." + name, {1, 2, 4});  // of it, next to each other
    // The reduction's neighbours next to each other; for tensor tiles also several across at once.
    knobs.add(p + "copy." + name,
              has_tiles ? std::vector<int64_t>{0, 1, 2} : std::vector<int64_t>{0, 1});
    knobs.add(p + "pad." + name, {0, pad_words});  // then, of a row in shared memory
  }
  knobs.add(p + "stages", {1, 2, 3, 4});  // blocks of the reduction in shared memory at once
  add_bulk(compute, plan, has_tiles, knobs);
  const int64_t length = points_of(stage, names_of(stage.reduction));
  knobs.add(p + "kblock", powers(length, 4, 32));
  knobs.add(p + "unroll", {1, 2, 4, 8});
  if (stage.reduction.size() > 1) knobs.add(p + "fused", {0, 1});  // the reduction, to one loop
  knobs.add(p + "raster", {1, 2, 4, 8});  // blocks of the outer dimension next to each other
  std::vector<int64_t> splits;            // of the main reduction, each with sums of its own
  for (const int64_t split : {1, 2, 4, 8, 16, 32})
    if (split == 1 ||
        (!plan.main_reduction.empty() && extent_of(stage, plan.main_reduction) % split == 0))
      splits.push_back(split);
  knobs.add(p + "split", splits);
}

void add_elements(const StagePlan& plan, const Stage& stage, const Target& target, Knobs& knobs) {
  const std::string p = plan.name + ".";
  knobs.add(p + "threads", powers(points_of(stage, names_of(stage.axes)), warp_threads,
                                  target.machine.gpu->block_threads));
  knobs.add(p + "together", {1, 2, 4});
  if (stage.axes.size() > 1) knobs.add(p + "rows", {0, 1});  // a block is a row
  if (stage.reduction.size() > 1) knobs.add(p + "taps", {0, 1, 2});
}

void add_lanes(const StagePlan& plan, const Stage& stage, const Target& target, Knobs& knobs) {
  knobs.add(plan.name + ".threads", powers(extent_of(stage, plan.lane_axis), warp_threads,
                                           target.machine.gpu->block_threads));
}

// ---- construction ---------------------------------------------------------------------------

/// The first loop that is left, of all, fused.
std::string fuse_all(Construction& c, const std::string& stage, const Loops& loops) {
  std::string fused = loops.front();
  for (size_t i = 1; i < loops.size(); ++i) {
    c.schedule.add(Fuse{stage, fused, loops[i]});
    fused += "*" + loops[i];
  }
  return fused;
}

/// Splits `loop` and leaves the inner part there; the outer is the result.
std::string split_off(Construction& c, const std::string& stage, std::string& loop,
                      int64_t factor) {
  c.schedule.add(Split{stage, loop, factor});
  const std::string outer = loop + ".0";
  loop += ".1";
  return outer;
}

/// What one dimension of a block's tile becomes: a thread has `apart` groups of `together`
/// neighbours, so that the groups of neighbouring threads are neighbours too.
struct TileDimension {
  std::string block;      ///< outside of the tile
  Loops apart, together;  ///< a loop or none each
  std::string thread;

  Loops of_thread() const { return concat({apart, together}); }
  Loops all() const { return concat({apart, {thread}, together}); }
};

/// The copies of an operand, as many blocks of the reduction ahead as the knob says.
void pipeline(Construction& c, const StagePlan& plan, const std::string& stage) {
  const int64_t stages = c.value(plan, "stages", 1);
  if (stages > 1) c.schedule.add(Pipeline{stage, stages});
}

/// What is tiled where a stage is a product: the stage, or its partial sums.
struct ProductStage {
  std::string name;
  Stage stage;
  ProductAxes axes;
  Loops reduction;  ///< the main loop innermost
};

/// With partial sums of as many blocks of the main reduction as the knob says (split-K): more
/// blocks of threads where there are few results and long sums.
ProductStage product_of(Construction& c, const StagePlan& plan) {
  ProductStage product{plan.name, c.plan().stage(plan), plan.product, {}};
  if (const int64_t split = c.value(plan, "split", 1); split > 1) {
    c.schedule.add(Rfactor{plan.name, plan.main_reduction, split, Partition::Blocks});
    product.name += ".rf";
    const StageNest* nest = c.schedule.error() ? nullptr : c.schedule.nest().find(product.name);
    if (nest) product.stage = nest->stage;
    product.axes.batch.insert(product.axes.batch.begin(), plan.main_reduction + "_rf");
  }
  product.reduction = names_of(product.stage.reduction);
  std::erase(product.reduction, plan.main_reduction);
  if (!plan.main_reduction.empty()) product.reduction.push_back(plan.main_reduction);
  return product;
}

/// Whether an operand is copied in bulk, by the engine's own order: neighbours are a dimension.
bool copies_in_bulk(Construction& c, const StagePlan& plan, const std::string& name) {
  return c.value(plan, "bulk." + name) == 1;
}

void specialise(Construction& c, const StagePlan& plan, const ProductStage& product) {
  if (c.value(plan, "specialise") == 1) c.schedule.add(Specialise{product.name});
}

/// Splits blocks of `block` off the innermost loop of the reduction, or off all of it fused: the
/// loops around blocks and over them. `loop` becomes that of a block.
Loops split_blocks(Construction& c, const StagePlan& plan, const ProductStage& product,
                   int64_t block, std::string& loop) {
  Loops loops = product.reduction;
  loop = loops.back();
  loops.pop_back();
  if (c.value(plan, "fused") == 1) {
    loop = fuse_all(c, product.name, concat({loops, {loop}}));
    loops.clear();
  }
  loops.push_back(split_off(c, product.name, loop, block));
  return loops;
}

/// The loops over blocks of threads. Of the outer dimension a few at a time are next to each other,
/// as the knob says, so that blocks which run at once share what they read of the inner one too.
Loops order_blocks(Construction& c, const StagePlan& plan, const ProductStage& product,
                   std::string outer, const std::string& inner) {
  const int64_t raster = c.value(plan, "raster", 1);
  if (raster == 1) return concat({product.axes.batch, {outer, inner}});
  const std::string groups = split_off(c, product.name, outer, raster);
  return concat({product.axes.batch, {groups, inner, outer}});
}

/// Neighbouring sums to neighbouring threads, each of which reads all partial ones at once.
void sum_partials(Construction& c, const StagePlan& plan) {
  constexpr int64_t threads = 256;
  if (c.value(plan, "split", 1) == 1) return;
  std::string thread = fuse_all(c, plan.name, names_of(c.plan().stage(plan).axes));
  const std::string block = split_off(c, plan.name, thread, threads);
  c.schedule.add(CacheWrite{plan.name, thread});
  c.schedule.add(Parallel{plan.name, block});
  c.schedule.add(Bind{plan.name, thread});
  c.schedule.add(Unroll{plan.name, plan.main_reduction + "_rf"});
}

/// The name of the new stage; none where the step fails.
std::string cache_operand(Construction& c, const CacheOperand& step) {
  c.schedule.add(step);
  if (c.schedule.error()) return {};
  const auto& stages = c.schedule.nest().stages;
  const auto at = std::find_if(stages.begin(), stages.end(),
                               [&](const StageNest& s) { return s.stage.name == step.stage; });
  return std::prev(at)->stage.name;
}

/// The loops of a copy, and vectors inside of them, to the threads of a block. Turns of a thread
/// are unrolled up to so many elements, where each has a condition of its own.
void share_copy(Construction& c, const std::string& stage, const Loops& loops, const Loops& vectors,
                int64_t threads, int64_t most_guarded = 256) {
  std::string thread = fuse_all(c, stage, loops);
  // A thread's turns inside of it: outside they would be as many nests, with barriers between.
  const std::string turns = split_off(c, stage, thread, threads);
  c.schedule.add(Reorder{stage, {thread, turns}});
  c.schedule.add(Bind{stage, thread});
  for (const std::string& lanes : vectors) c.schedule.add(Vectorize{stage, lanes});
  const StageNest* nest = c.schedule.error() ? nullptr : c.schedule.nest().find(stage);
  if (!nest) return;
  const auto extent = [&](const std::string& loop) {
    return nest->loops[static_cast<size_t>(nest->find_loop(loop))].extent;
  };
  int64_t elements = extent(turns);
  for (const std::string& lanes : vectors) elements *= extent(lanes);
  const bool is_guarded = nest->stage.body.as<dsl::Select>() != nullptr;
  if (extent(turns) <= 16 && (!is_guarded || elements <= most_guarded))
    c.schedule.add(Unroll{stage, turns});
}

class Product {
 public:
  Product(Construction& c, const StagePlan& plan)
      : c_(c), plan_(plan), product_(product_of(c, plan)) {}

  void construct() {
    const ProductAxes& axes = product_.axes;
    c_.schedule.add(
        Reorder{product_.name, concat({axes.batch, axes.rows, axes.columns, product_.reduction})});
    const TileDimension rows = tile("rows", axes.rows), columns = tile("columns", axes.columns);
    const Loops reduction = split_reduction();
    // The threads whose results are next to each other are next to each other.
    const bool rows_last = rows_are_last(plan_, product_.stage);
    const TileDimension& outer = rows_last ? columns : rows;
    const TileDimension& inner = rows_last ? rows : columns;
    const Loops blocks = order_blocks(c_, plan_, product_, outer.block, inner.block);
    c_.schedule.add(Reorder{product_.name, concat({blocks,
                                                   outside_,
                                                   {outer.thread, inner.thread},
                                                   reduction,
                                                   outer.of_thread(),
                                                   inner.of_thread()})});
    c_.schedule.add(CacheWrite{product_.name, blocks.back()});
    const std::string first = cache(1, rows, reduction), second = cache(2, columns, reduction);
    for (const std::string& loop : blocks) c_.schedule.add(Parallel{product_.name, loop});
    for (const std::string& loop : {outer.thread, inner.thread})
      c_.schedule.add(Bind{product_.name, loop});
    if (!unrolled_.empty()) c_.schedule.add(Unroll{product_.name, unrolled_});
    Loops written = concat({outer.of_thread(), inner.apart});
    for (const std::string& loop : inner.together) c_.schedule.add(Vectorize{product_.name, loop});
    for (const std::string& loop : written) c_.schedule.add(Unroll{product_.name, loop});
    copy("rows", first, rows, reduction);
    copy("columns", second, columns, reduction);
    specialise(c_, plan_, product_);
    sum_partials(c_, plan_);
  }

 private:
  TileDimension tile(const std::string& name, const Loops& axes) {
    const int64_t block = c_.value(plan_, "block." + name);
    const int64_t tile = c_.value(plan_, "tile." + name);
    const int64_t together = std::min(c_.value(plan_, "together." + name), tile);
    threads_ *= block / tile;
    std::string loop = fuse_all(c_, product_.name, axes);
    TileDimension d;
    d.block = split_off(c_, product_.name, loop, block);
    if (together < tile) d.apart = {split_off(c_, product_.name, loop, block / tile * together)};
    d.thread = loop;
    if (together > 1) {
      d.thread = split_off(c_, product_.name, loop, together);
      d.together = {loop};
    }
    return d;
  }

  /// The loops of a block of the reduction; those around it are `outside_`.
  Loops split_reduction() {
    const int64_t block = c_.value(plan_, "kblock"), unroll = c_.value(plan_, "unroll");
    std::string loop;
    outside_ = split_blocks(c_, plan_, product_, block, loop);
    if (unroll == 1) return {loop};
    if (unroll >= block) {
      unrolled_ = loop;
      return {loop};
    }
    const std::string rest = split_off(c_, product_.name, loop, unroll);
    unrolled_ = loop;
    return {rest, loop};
  }

  std::string cache(int64_t operand, const TileDimension& dimension, const Loops& reduction) {
    return cache_operand(
        c_, {product_.name, operand, outside_.back(), concat({reduction, dimension.all()})});
  }

  /// All threads of the block copy an operand, neighbours to neighbours.
  void copy(const std::string& name, const std::string& stage, const TileDimension& dimension,
            const Loops& reduction) {
    if (stage.empty()) return;
    pipeline(c_, plan_, stage);
    if (copies_in_bulk(c_, plan_, name)) {
      fuse_all(c_, stage, reduction);
      fuse_all(c_, stage, dimension.all());
      return c_.schedule.add(Bulk{stage});
    }
    const bool along_reduction = c_.value(plan_, "copy." + name) == 1;
    Loops loops = concat({reduction, dimension.all()}), vector;
    if (along_reduction) {
      pad(name, stage, dimension);
      loops = concat({dimension.all(), reduction});
      c_.schedule.add(Reorder{stage, loops});
    } else if (!dimension.together.empty()) {
      vector = dimension.together;
      loops.pop_back();
    }
    share_copy(c_, stage, loops, vector, threads_);
  }

  void pad(const std::string& name, const std::string& stage, const TileDimension& dimension) {
    const int64_t bytes = c_.value(plan_, "pad." + name) * word_bytes;
    const StageNest* nest = c_.schedule.error() ? nullptr : c_.schedule.nest().find(stage);
    if (bytes > 0 && nest)
      c_.schedule.add(Pad{stage, dimension.all().front(), bytes / size_bytes(nest->stage.type)});
  }

  Construction& c_;
  const StagePlan& plan_;
  const ProductStage product_;
  int64_t threads_ = 1;
  Loops outside_;         // of the reduction: around its blocks, and over them
  std::string unrolled_;  // of it, or none
};

/// What one dimension of a block's tile becomes where warps, or warpgroups, compute it by tensor
/// tiles: each has neighbouring tiles, and in each of them a lane two rows eight apart, or two
/// columns that are neighbours.
struct TiledDimension {
  std::string block;   ///< outside of the block's tile
  Loops warps, tiles;  ///< a loop or none each
  Loops groups;        ///< of columns of a warpgroup's tile, or none
  Loops inside;        ///< of a warpgroup's tile: its warps, or eights of columns
  std::string lane;    ///< of 8 in a column, or of 4 in a row
  std::string part;    ///< of a lane: the loop of 2

  Loops beyond() const { return concat({warps, tiles, groups}); }
  Loops outside() const { return concat({beyond(), inside}); }
};

class TensorProduct {
 public:
  TensorProduct(Construction& c, const StagePlan& plan, const TensorTile& tile)
      : c_(c), plan_(plan), product_(product_of(c, plan)), tile_(tile) {}

  void construct() {
    const ProductAxes& axes = product_.axes;
    c_.schedule.add(
        Reorder{product_.name, concat({axes.batch, axes.rows, axes.columns, product_.reduction})});
    // Of a tile's columns a lane has neighbours: they are what is contiguous in the output.
    const bool rows_last = rows_are_last(plan_, product_.stage);
    const std::string names[] = {"rows", "columns"};
    const Loops* const of_names[] = {&axes.rows, &axes.columns};
    const size_t outer_at = rows_last ? 1 : 0, inner_at = 1 - outer_at;
    const TiledDimension outer = rows(names[outer_at], *of_names[outer_at]);
    const TiledDimension inner = columns(names[inner_at], *of_names[inner_at]);
    split_reduction();
    const Loops blocks = order_blocks(c_, plan_, product_, outer.block, inner.block);
    const Loops threads =
        concat({outer.warps, inner.warps, outer.inside, {outer.lane, inner.lane}});
    c_.schedule.add(Reorder{product_.name, concat({blocks,
                                                   outside_,
                                                   threads,
                                                   steps_,
                                                   outer.tiles,
                                                   inner.tiles,
                                                   {outer.part},
                                                   inner.groups,
                                                   inner.inside,
                                                   {inner.part, depth_}})});
    c_.schedule.add(CacheWrite{product_.name, blocks.back()});
    // Eight rows of what a tile needs of each are 256 bytes: all banks of shared memory, once.
    const Loops outer_row = {outer.part, outer.lane}, inner_row = {inner.lane, inner.part};
    const std::string first = cache(outer_at, names[outer_at], outer, outer_row);
    const std::string second = cache(inner_at, names[inner_at], inner, inner_row);
    for (const std::string& loop : blocks) c_.schedule.add(Parallel{product_.name, loop});
    for (const std::string& loop : threads) c_.schedule.add(Bind{product_.name, loop});
    for (const std::string& loop : concat({unrolled_, outer.tiles, inner.tiles}))
      c_.schedule.add(Unroll{product_.name, loop});
    c_.schedule.add(Tensorize{product_.name, outer.part, std::string(tile_.name)});
    if (is_mn_major(names[outer_at])) {
      copy_neighbours(names[outer_at], first, outer, outer_row);
    } else {
      copy(names[outer_at], first, concat({outer.outside(), {outer.part}}), {outer.lane});
    }
    if (is_mn_major(names[inner_at])) {
      copy_neighbours(names[inner_at], second, inner, inner_row);
    } else {
      copy(names[inner_at], second, inner.outside(), inner_row);
    }
    for (const std::string& operand : {first, second}) pipeline(c_, plan_, operand);
    if (copies_in_bulk(c_, plan_, names[outer_at])) c_.schedule.add(Bulk{first});
    if (copies_in_bulk(c_, plan_, names[inner_at])) c_.schedule.add(Bulk{second});
    specialise(c_, plan_, product_);
    sum_partials(c_, plan_);
  }

 private:
  TiledDimension tile(const std::string& name, const Loops& axes, int64_t extent,
                      std::string& loop) {
    const int64_t block = c_.value(plan_, "block." + name);
    const int64_t warps = c_.value(plan_, "warps." + name);
    threads_ *= warps;
    loop = fuse_all(c_, product_.name, axes);
    TiledDimension d;
    d.block = split_off(c_, product_.name, loop, block);
    if (warps > 1) d.warps = {split_off(c_, product_.name, loop, block / warps)};
    if (block / warps > extent) d.tiles = {split_off(c_, product_.name, loop, extent)};
    return d;
  }

  TiledDimension rows(const std::string& name, const Loops& axes) {
    std::string loop;
    const bool is_wide = tile_.is_of_warpgroup;
    TiledDimension d = tile(name, axes, is_wide ? warpgroup_rows : tile_rows, loop);
    if (is_wide) d.inside = {split_off(c_, product_.name, loop, tile_rows)};
    d.part = split_off(c_, product_.name, loop, lane_rows);
    d.lane = loop;
    return d;
  }

  TiledDimension columns(const std::string& name, const Loops& axes) {
    std::string loop;
    const bool is_wide = tile_.is_of_warpgroup;
    TiledDimension d = tile(name, axes, is_wide ? most_warpgroup_columns : tile_columns, loop);
    const int64_t columns = c_.value(plan_, "block." + name) / c_.value(plan_, "warps." + name);
    if (is_mn_major(name) && columns > mn_group)
      d.groups = {split_off(c_, product_.name, loop, mn_group)};
    if (is_wide) d.inside = {split_off(c_, product_.name, loop, tile_columns)};
    d.lane = split_off(c_, product_.name, loop, tile_part);
    d.part = loop;
    return d;
  }

  void split_reduction() {
    const int64_t tiles = c_.value(plan_, "tiles");
    std::string loop;
    outside_ = split_blocks(c_, plan_, product_, tiles * tile_.depth, loop);
    if (tiles > 1) steps_ = {split_off(c_, product_.name, loop, tile_.depth)};
    if (c_.value(plan_, "unroll") > 1) unrolled_ = steps_;
    depth_ = loop;
  }

  /// A warpgroup's instruction reads rows, of a block of the reduction, which are swizzled, or for
  /// each term of it groups of neighbouring rows.
  std::string cache(size_t operand, const std::string& name, const TiledDimension& d,
                    const Loops& row) {
    const bool is_wide = tile_.is_of_warpgroup, is_mn = is_mn_major(name);
    const Loops rows = concat({d.outside(), row});
    const Loops loops = is_mn     ? concat({d.beyond(), steps_, {depth_}, d.inside, row})
                        : is_wide ? concat({rows, steps_, {depth_}})
                        : keeps_rows(operand, name) ? concat({steps_, {depth_}, rows})
                                                    : concat({steps_, rows, {depth_}});
    const std::string stage = cache_operand(
        c_, {product_.name, static_cast<int64_t>(operand) + 1, outside_.back(), loops});
    if (is_wide && !stage.empty())
      c_.schedule.add(Swizzle{
          stage, is_mn ? neighbours_of(name) * size_bytes(tile_.operand)
                       : c_.value(plan_, "tiles") * tile_.depth * size_bytes(tile_.operand)});
    return stage;
  }

  int64_t neighbours_of(const std::string& name) {
    const bool are_rows = (name == "columns") == rows_are_last(plan_, product_.stage);
    return mn_neighbours(tile_, c_.value(plan_, "block." + name), c_.value(plan_, "warps." + name),
                         are_rows);
  }

  /// Whether the neighbours of an operand stay neighbours in what a warpgroup's instruction reads:
  /// rows, that are contiguous in memory and copied several at once.
  bool is_mn_major(const std::string& name) {
    if (neighbours_of(name) == 0) return false;
    const size_t operand = name == "rows" ? 0 : 1;
    if (copies_in_bulk(c_, plan_, name)) return keeps_rows(operand, name);
    const Stage& stage = c_.plan().stage(plan_);
    return c_.value(plan_, "copy." + name) == 2 &&
           !reduces_along_memory(stage, operands_of(stage)[operand]);
  }

  /// What the engine copies keeps its order: rows may be neighbours.
  bool keeps_rows(size_t operand, const std::string& name) {
    return copies_in_bulk(c_, plan_, name) &&
           box_neighbours(c_.plan(), plan_, operand) == BoxNeighbours::Rows;
  }

  /// A box of groups by terms by neighbours; or all threads of the block copy 16 bytes of these
  /// each.
  void copy_neighbours(const std::string& name, const std::string& stage, const TiledDimension& d,
                       const Loops& row) {
    if (stage.empty()) return;
    const Loops groups = d.beyond();
    std::string neighbours = fuse_all(c_, stage, concat({d.inside, row}));
    if (copies_in_bulk(c_, plan_, name)) {
      if (!groups.empty()) fuse_all(c_, stage, groups);
      fuse_all(c_, stage, concat({steps_, {depth_}}));
      return;
    }
    const std::string pieces = split_off(c_, stage, neighbours, 16 / size_bytes(tile_.operand));
    share_copy(c_, stage, concat({groups, steps_, {depth_, pieces}}), {neighbours},
               threads_ * lane_rows * lane_columns, most_guarded_of_warpgroup);
  }

  /// All threads of the block copy an operand: neighbours along the reduction, 16 bytes each, or
  /// eight rows side by side, of which warps write four elements each. Or a thread reads several of
  /// these rows at once.
  void copy(const std::string& name, const std::string& stage, const Loops& outside,
            const Loops& row) {
    if (stage.empty()) return;
    if (copies_in_bulk(c_, plan_, name)) {
      fuse_all(c_, stage, concat({outside, row}));
      if (tile_.is_of_warpgroup || keeps_rows(name == "rows" ? 0 : 1, name))
        fuse_all(c_, stage, concat({steps_, {depth_}}));
      return;
    }
    std::string depth = depth_;
    Loops loops, vector;
    if (c_.value(plan_, "copy." + name) == 1) {
      const std::string outer = split_off(c_, stage, depth, 16 / size_bytes(tile_.operand));
      loops = concat({outside, row, steps_, {outer}});
      vector = {depth};
    } else {
      loops = concat({steps_, outside, {depth}, row});
    }
    c_.schedule.add(Reorder{stage, concat({loops, vector})});
    if (c_.value(plan_, "copy." + name) == 2) {
      loops = concat({steps_, outside, {depth}});
      std::string eight = fuse_all(c_, stage, row);
      if (const int64_t lanes = 16 / size_bytes(tile_.operand); lanes < lane_rows)
        loops.push_back(split_off(c_, stage, eight, lanes));
      vector = {eight};
    }
    share_copy(c_, stage, loops, vector, threads_ * lane_rows * lane_columns,
               tile_.is_of_warpgroup ? most_guarded_of_warpgroup : most_guarded_copies);
  }

  Construction& c_;
  const StagePlan& plan_;
  const ProductStage product_;
  const TensorTile& tile_;
  int64_t threads_ = tile_.is_of_warpgroup ? warpgroup_warps : 1;  // warps
  Loops outside_, steps_;  // of the reduction: around its blocks and over them; tiles of a block
  Loops unrolled_;         // of these
  std::string depth_;      // of a tile
};

/// Where the producers of a root stage may go.
struct Site {
  std::string loop;     ///< none: nowhere
  int64_t threads = 1;  ///< of a block
};

/// Neighbouring elements to neighbouring threads.
Site construct_elements(Construction& c, const StagePlan& plan) {
  const Stage& stage = c.plan().stage(plan);
  const int64_t threads = c.value(plan, "threads"), together = c.value(plan, "together");
  const bool by_rows = c.value(plan, "rows") == 1;
  Loops axes = names_of(stage.axes);
  Site site;
  Loops blocks;
  std::string loop = axes.back();
  if (by_rows) {
    axes.pop_back();
    blocks = {fuse_all(c, plan.name, axes)};
    site = {blocks.front(), threads};
  } else {
    loop = fuse_all(c, plan.name, axes);
  }
  const std::string tile = split_off(c, plan.name, loop, threads * together);
  if (by_rows) {
    axes = {tile};
  } else {
    axes.clear();
    blocks = {tile};
  }
  std::string thread = loop;
  Loops neighbours;
  if (together > 1) {
    thread = split_off(c, plan.name, loop, together);
    neighbours = {loop};
  }
  const Loops reduction = names_of(stage.reduction);
  c.schedule.add(Reorder{plan.name, concat({blocks, axes, {thread}, reduction, neighbours})});
  if (!reduction.empty()) c.schedule.add(CacheWrite{plan.name, thread});
  for (const std::string& block : blocks) c.schedule.add(Parallel{plan.name, block});
  c.schedule.add(Bind{plan.name, thread});
  for (const std::string& lanes : neighbours) c.schedule.add(Vectorize{plan.name, lanes});
  const auto taps = static_cast<size_t>(c.value(plan, "taps"));
  for (size_t i = reduction.size(); i > 0 && reduction.size() - i < taps; --i)
    c.schedule.add(Unroll{plan.name, reduction[i - 1]});
  return site;
}

/// Partial sums by the threads of a block, which a warp adds up.
void construct_partial_sums(Construction& c, const StagePlan& plan) {
  const Stage& stage = c.plan().stage(plan);
  const std::string partial = plan.name + ".rf", lane = plan.lane_axis + "_rf";
  const Loops axes = names_of(stage.axes);
  c.schedule.add(ComputeAt{partial, plan.name, axes.back()});
  c.schedule.add(Reorder{partial, concat({axes, {lane}, names_of(stage.reduction)})});
  c.schedule.add(CacheWrite{partial, lane});
  c.schedule.add(Bind{partial, lane});
  c.schedule.add(CacheWrite{plan.name, axes.back()});
  c.schedule.add(Bind{plan.name, lane});
}

Site construct_lanes(Construction& c, const StagePlan& plan) {
  const Stage& stage = c.plan().stage(plan);
  const int64_t threads = c.value(plan, "threads");
  c.schedule.add(Rfactor{plan.name, plan.lane_axis, threads});
  construct_partial_sums(c, plan);
  const Loops axes = names_of(stage.axes);
  for (const std::string& axis : axes) c.schedule.add(Parallel{plan.name, axis});
  return {axes.back(), threads};
}

/// Computed in the rows of its consumer, by the threads that this has.
void construct_placed(Construction& c, const StagePlan& plan, const Site& site) {
  const Stage& stage = c.plan().stage(plan);
  const bool splits = plan.role == Role::Lanes && !stage.axes.empty();
  if (splits) c.schedule.add(Rfactor{plan.name, plan.lane_axis, site.threads});
  c.schedule.add(ComputeAt{plan.name, plan.owner, site.loop});
  if (splits) return construct_partial_sums(c, plan);
  std::string thread = fuse_all(c, plan.name, names_of(stage.axes));
  const std::string turns = split_off(c, plan.name, thread, site.threads);
  c.schedule.add(Reorder{plan.name, {thread, turns}});
  if (!stage.reduction.empty()) c.schedule.add(CacheWrite{plan.name, turns});
  c.schedule.add(Bind{plan.name, thread});
}

/// Whether all that read the stage are its owner, or are computed in its rows.
bool reads_stay_inside(const ComputePlan& plan, const StagePlan& stage,
                       const std::set<std::string>& placed) {
  const auto readers = plan.compute.consumers(stage.name);
  return std::all_of(readers.begin(), readers.end(), [&](const Stage* reader) {
    return reader->name == stage.owner || placed.contains(reader->name);
  });
}

Site construct_root(Construction& c, const StagePlan& plan) {
  if (c.plan().stage(plan).axes.empty()) return {};  // a single number: one thread
  if (is_product(plan)) {
    const int64_t tensor = c.value(plan, "tensor");
    if (const auto* tile = tile_of(plan, c.plan().stage(plan), c.plan().target, tensor)) {
      TensorProduct(c, plan, *tile).construct();
    } else {
      Product(c, plan).construct();
    }
    return {};
  }
  if (plan.role == Role::Lanes) return construct_lanes(c, plan);
  return construct_elements(c, plan);
}

// ---- constraints ----------------------------------------------------------------------------

/// Of the loop over the reduction that is blocked.
int64_t pipelined_extent(const ComputePlan& compute, const StagePlan& plan, const Knobs& knobs,
                         const Point& point) {
  const Stage& stage = compute.stage(plan);
  const int64_t split = knobs.value(point, plan.name + ".split", 1);
  if (knobs.value(point, plan.name + ".fused") == 1)
    return points_of(stage, names_of(stage.reduction)) / split;
  return plan.main_reduction.empty() ? stage.reduction.back().extent
                                     : extent_of(stage, plan.main_reduction) / split;
}

/// Of blocks of threads, along the rows or the columns.
int64_t blocks_along(const std::string& name, const Stage& stage, const StagePlan& plan,
                     const Knobs& knobs, const Point& point) {
  const Loops& axes = name == "rows" ? plan.product.rows : plan.product.columns;
  return ceil_div(points_of(stage, axes), knobs.value(point, plan.name + ".block." + name));
}

/// Of what all products choose alike.
bool is_sensible_order(const ComputePlan& compute, const StagePlan& plan, const Knobs& knobs,
                       const Point& point) {
  constexpr int64_t least_terms = 64;  // of a part: fewer are not worth storing a sum for
  const Stage& stage = compute.stage(plan);
  const std::string outer = rows_are_last(plan, stage) ? "columns" : "rows";
  const int64_t along = blocks_along(outer, stage, plan, knobs, point);
  const int64_t raster = knobs.value(point, plan.name + ".raster", 1);
  const bool is_split = knobs.value(point, plan.name + ".split", 1) > 1;
  return along % raster == 0 &&
         (!is_split || pipelined_extent(compute, plan, knobs, point) >= least_terms);
}

bool is_sensible_tensor_product(const ComputePlan& compute, const StagePlan& plan,
                                const TensorTile& tile, const Knobs& knobs, const Point& point) {
  const auto value = [&](const std::string& name) {
    return knobs.value(point, plan.name + "." + name, 1);
  };
  const Stage& stage = compute.stage(plan);
  const int64_t length = pipelined_extent(compute, plan, knobs, point);
  const int64_t kblock = value("tiles") * tile.depth, stages = value("stages");
  if (round_up(length, kblock) > 2 * length) return false;  // mostly padding
  if (stages > 1 && stages > ceil_div(length, kblock)) return false;
  const bool rows_last = rows_are_last(plan, stage);
  const bool is_wide = tile.is_of_warpgroup;
  int64_t threads = is_wide ? warpgroup_warps * warp_threads : warp_threads, tiles = 1, shared = 0,
          factors = 0;
  for (const std::string name : {"rows", "columns"}) {
    const bool are_rows = (name == "columns") == rows_last;
    const int64_t block = value("block." + name), warps = value("warps." + name);
    const int64_t extent = are_rows ? (is_wide ? warpgroup_rows : tile_rows) : tile_columns;
    if (block % (warps * extent) != 0) return false;
    if (is_wide && !are_rows && !has_columns(tile, block / warps)) return false;
    threads *= warps;
    tiles *= block / warps / extent;
    // Two registers for each eight rows or columns, and as many for what splitting leaves.
    if (!is_wide) factors += block / warps / 8 * 2 * (tile.instructions > 1 ? 2 : 1);
    shared += block * kblock * size_bytes(tile.operand);
  }
  if (!has_sensible_boxes(compute, plan, &tile, knobs, point) ||
      !is_sensibly_specialised(compute, plan, knobs, point, threads))
    return false;
  const int64_t sums = tiles * tile_part * tile_part;
  const int64_t registers = std::min<int64_t>(compute.target.machine.gpu->registers_per_thread,
                                              most_block_registers / threads);
  return threads <= compute.target.machine.gpu->block_threads && sums <= most_sums &&
         sums + factors + own_registers <= registers &&
         tiles * value("tiles") * tile.instructions <= most_products &&
         stages * shared + barrier_bytes(plan, knobs, point) <=
             compute.target.machine.gpu->block_shared_bytes;
}

bool is_sensible_product(const ComputePlan& compute, const StagePlan& plan, const Knobs& knobs,
                         const Point& point) {
  const auto value = [&](const std::string& name) {
    return knobs.value(point, plan.name + "." + name, 1);
  };
  const int64_t tensor = knobs.value(point, plan.name + ".tensor", 0);
  if (!is_sensible_order(compute, plan, knobs, point)) return false;
  if (const auto* tile = tile_of(plan, compute.stage(plan), compute.target, tensor))
    return is_sensible_tensor_product(compute, plan, *tile, knobs, point);
  int64_t threads = 1, sums = 1, shared = 0;
  const int64_t kblock = value("kblock"), unroll = value("unroll"), stages = value("stages");
  for (const std::string name : {"rows", "columns"}) {
    const int64_t block = value("block." + name), tile = value("tile." + name);
    if (tile > block || value("together." + name) > tile || value("copy." + name) > 1) return false;
    threads *= block / tile;
    sums *= tile;
    const int64_t padding = value("copy." + name) == 1 ? value("pad." + name) * word_bytes : 0;
    shared += kblock * (block * size_bytes(compute.stage(plan).type) + padding);
  }
  if (stages > 1 && stages > ceil_div(pipelined_extent(compute, plan, knobs, point), kblock))
    return false;
  if (!has_sensible_boxes(compute, plan, nullptr, knobs, point) ||
      !is_sensibly_specialised(compute, plan, knobs, point, threads))
    return false;
  return threads >= least_threads && threads <= compute.target.machine.gpu->block_threads &&
         sums <= most_sums && unroll <= kblock && sums * unroll <= most_products &&
         stages * shared + barrier_bytes(plan, knobs, point) <=
             compute.target.machine.gpu->block_shared_bytes;
}

// ---- plainness ------------------------------------------------------------------------------

// More than all else that plainness says of a stage.
constexpr double far_better = 100;

/// Where one product takes several instructions, they must beat the f32 lanes. The rate of tensor
/// cores halves with each doubling of the operand.
bool is_worth_it(const TensorTile& tile, const Target& target) {
  const Gpu& gpu = *target.machine.gpu;
  return tile.instructions == 1 ||
         gpu.tensor_fma * 2 / size_bytes(tile.operand) / tile.instructions > gpu.fma_lanes;
}

/// How far the multiprocessors are from having a block each, and what sums of parts cost.
double idleness(const ComputePlan& plan, const StagePlan& stage, const Knobs& knobs,
                const Point& point) {
  const Stage& definition = plan.stage(stage);
  const auto split = static_cast<double>(knobs.value(point, stage.name + ".split", 1));
  auto blocks = split * static_cast<double>(points_of(definition, stage.product.batch));
  for (const std::string name : {"rows", "columns"})
    blocks *= static_cast<double>(blocks_along(name, definition, stage, knobs, point));
  const double idle = std::max(0.0, std::log2(plan.target.machine.cores / blocks));
  return 2 * idle + (split > 1 ? 1 + 0.5 * std::log2(split) : 0);
}

}  // namespace

Knobs gpu_knobs_of(const ComputePlan& plan) {
  Knobs knobs;
  for (const StagePlan& stage : plan.stages) {
    const Stage& definition = plan.stage(stage);
    // 0: a phase of its own, 1: in a row of its owner
    if (stage.placeable) knobs.add(stage.name + ".place", {0, 1});
    if (definition.axes.empty()) continue;
    if (is_product(stage)) {
      add_product(plan, stage, knobs);
    } else if (stage.role == Role::Lanes) {
      add_lanes(stage, definition, plan.target, knobs);
    } else {
      add_elements(stage, definition, plan.target, knobs);
    }
  }
  return knobs;
}

bool meets_gpu_constraints(const ComputePlan& plan, const StagePlan& stage, const Knobs& knobs,
                           const Point& point) {
  return !is_product(stage) || is_sensible_product(plan, stage, knobs, point);
}

Construction construct_for_gpu(const ComputePlan& plan, const Knobs& knobs, const Point& point) {
  Construction c(plan, knobs, point);
  std::map<std::string, Site> sites;  // of each root stage
  std::set<std::string> placed;
  for (const StagePlan& stage : plan.stages) {
    const Site& site = sites[stage.owner];
    if (stage.placeable && !site.loop.empty() && c.value(stage, "place") == 1 &&
        reads_stay_inside(plan, stage, placed)) {
      construct_placed(c, stage, site);
      placed.insert(stage.name);
    } else {
      sites[stage.name] = construct_root(c, stage);
    }
    if (c.schedule.error()) break;
  }
  return c;
}

double gpu_plainness(const ComputePlan& plan, const Knobs& knobs, const Point& point) {
  double score = 0;
  const auto prefer = [&](const std::string& knob, double wanted, double weight) {
    if (!knobs.find(knob)) return;
    score -= weight * std::abs(std::log2(static_cast<double>(knobs.value(point, knob)) / wanted));
  };
  for (const StagePlan& stage : plan.stages) {
    const std::string p = stage.name + ".";
    for (const auto& [name, operand] : operands)
      score -= static_cast<double>(knobs.value(point, fmt::format("{}bulk.{}", p, name), 0));
    score -= static_cast<double>(knobs.value(point, p + "specialise", 0));
    if (is_product(stage)) {
      score -= idleness(plan, stage, knobs, point);
      prefer(p + "raster", 1, 0.1);
      const int64_t tensor = knobs.value(point, p + "tensor", 0);
      const TensorTile* tile = tile_of(stage, plan.stage(stage), plan.target, tensor);
      if (tile && is_worth_it(*tile, plan.target)) {
        if (tile->is_of_warpgroup) {
          // Two warpgroups below each other, and rows of 128 bytes.
          const bool rows_last = rows_are_last(stage, plan.stage(stage));
          for (const std::string name : {"rows", "columns"}) {
            prefer(p + "block." + name, 128, 1);
            prefer(p + "warps." + name, (name == "columns") == rows_last ? 2 : 1, 1);
          }
          prefer(p + "tiles", 4, 1);
          score += far_better;
        } else {
          for (const std::string name : {"rows", "columns"}) {
            prefer(p + "block." + name, 64, 1);
            prefer(p + "warps." + name, 2, 1);
          }
          prefer(p + "tiles", 2, 0.5);
        }
        prefer(p + "stages", 2.5, 1);
        prefer(p + "unroll", 4, 0.25);
        const std::vector<Expr> factors = operands_of(plan.stage(stage));
        for (const auto& [name, factor] : {std::pair("rows", 0), std::pair("columns", 1)})
          score -=
              knobs.value(point, p + "copy." + name) !=
              (reduces_along_memory(plan.stage(stage), factors[static_cast<size_t>(factor)]) ? 1
                                                                                             : 2);
        score += far_better;
        continue;
      }
      if (tile) score -= far_better;
    }
    for (const std::string name : {"rows", "columns"}) {
      prefer(p + "block." + name, 64, 1);
      prefer(p + "tile." + name, 4, 2);
      prefer(p + "together." + name, 4, 0.5);
    }
    prefer(p + "kblock", 8, 0.5);
    prefer(p + "stages", copies_asynchronously(plan.target) ? 2.5 : 1, 1);
    for (const std::string name : {"rows", "columns"})
      if (knobs.value(point, p + "copy." + name) == 1 && knobs.value(point, p + "pad." + name) == 0)
        score -= 0.5;
    prefer(p + "unroll", 4, 0.5);
    prefer(p + "threads", 128, 1);
    score += static_cast<double>(knobs.value(point, p + "place"));
  }
  return score;
}

}  // namespace tw::schedules
