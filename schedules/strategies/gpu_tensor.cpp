// SPDX-License-Identifier: Apache-2.0
#include "schedules/strategies/gpu_tensor.h"

#include <algorithm>
#include <cmath>

#include "base/integer.h"
#include "schedules/nest.h"
#include "schedules/program/threads.h"
#include "schedules/strategies/gpu_rows.h"

namespace tw::schedules {
namespace {

// Upper bound on the predicated elements that a thread copies in an unrolled loop while it also
// holds accumulators of tiles of a warp, or of a warpgroup. At twice this bound some of the
// benchmark convolutions spill registers.
constexpr int64_t most_guarded_copies = 32, most_guarded_of_warpgroup = 16;
// The largest number of registers of a block of threads, and the number of registers that a thread
// needs for anything except sums and factors.
constexpr int64_t most_block_registers = 64 << 10, own_registers = 48;
// Bytes of one vector copy by a thread.
constexpr int64_t vector_bytes = 16;

/// The loops of one side of a block's tile, which warps or warpgroups compute by tensor tiles. The
/// tiles of one warp are neighbours. In each tile a lane has two rows that are eight apart, or two
/// neighbouring columns.
struct TensorSide {
  std::string block;   ///< loop over tiles of blocks
  Loops warps, tiles;  ///< one loop or none each
  Loops groups;        ///< groups of columns of a warpgroup's tile, or none
  Loops inside;  ///< in a warpgroup's tile: the loop over its warps, or over its blocks of eight
                 ///< columns
  std::string lane;  ///< loop over the 8 lanes that lie along a column, or over the 4 lanes that
                     ///< lie along a row
  std::string part;  ///< loop over the 2 rows, or columns, of a lane
  Loops row;         ///< the loops over eight neighbours (lanes and parts), in the order of memory

  Loops beyond() const { return concat({warps, tiles, groups}); }
  Loops outside() const { return concat({beyond(), inside}); }
};

class TensorSteps : ProductSteps {
 public:
  TensorSteps(Construction& c, const ProductFacts& facts, const TensorTile& tile,
              const GpuTensor& config)
      : ProductSteps(c, facts, config), config_(config), tile_(tile) {}

  void append() {
    set_layouts();
    order_axes();
    const size_t outer_side = facts_.outer(), inner_side = facts_.inner();
    const TensorSide outer = split_rows(outer_side), inner = split_columns(inner_side);
    split_reduction();
    const Loops blocks = order_blocks(outer.block, inner.block);
    const Loops threads =
        concat({outer.warps, inner.warps, outer.inside, {outer.lane, inner.lane}});
    c_.schedule.add(Reorder{name_, concat({blocks,
                                           outside_,
                                           threads,
                                           steps_,
                                           outer.tiles,
                                           inner.tiles,
                                           {outer.part},
                                           inner.groups,
                                           inner.inside,
                                           {inner.part, depth_}})});
    c_.schedule.add(CacheWrite{name_, blocks.back()});
    const std::string first = cache(outer_side, outer), second = cache(inner_side, inner);
    for (const std::string& loop : blocks) c_.schedule.add(Parallel{name_, loop});
    for (const std::string& loop : threads) c_.schedule.add(Bind{name_, loop});
    unroll(c_, name_, concat({unrolled_, outer.tiles, inner.tiles}));
    c_.schedule.add(Tensorize{name_, outer.part, std::string(tile_.name)});
    copy(outer_side, first, outer, concat({outer.outside(), {outer.part}}), {outer.lane});
    copy(inner_side, second, inner, inner.outside(), inner.row);
    for (const std::string& operand : {first, second}) pipeline(operand);
    bulk(outer_side, first);
    bulk(inner_side, second);
    shape_blocks();
    stage_results(outer, inner);
    sum_partials();
  }

 private:
  TensorSide split_side(size_t side, int64_t extent, std::string& loop) {
    const int64_t &block = config_.sides[side].block, &warps = config_.warps[side];
    TensorSide result;
    result.block = ProductSteps::split_side(side, loop);
    c_.uses(warps);
    if (warps > 1) result.warps = {split_off(loop, block / warps)};
    if (block / warps > extent) result.tiles = {split_off(loop, extent)};
    return result;
  }

  TensorSide split_rows(size_t side) {
    std::string loop;
    const bool is_wide = tile_.is_of_warpgroup;
    TensorSide result = split_side(side, is_wide ? warpgroup_rows : tile_rows, loop);
    if (is_wide) result.inside = {split_off(loop, tile_rows)};
    result.part = split_off(loop, lane_rows);
    result.lane = loop;
    // In this order, each part of eight rows of a tile is 256 contiguous bytes, which use each bank
    // of shared memory equally.
    result.row = {result.part, result.lane};
    return result;
  }

  TensorSide split_columns(size_t side) {
    std::string loop;
    const bool is_wide = tile_.is_of_warpgroup;
    TensorSide result = split_side(side, is_wide ? most_warpgroup_columns : tile_columns, loop);
    const int64_t columns = config_.sides[side].block / config_.warps[side];
    if (is_mn_major(side) && columns > most_mn_neighbours)
      result.groups = {split_off(loop, most_mn_neighbours)};
    if (is_wide) result.inside = {split_off(loop, tile_columns)};
    result.lane = split_off(loop, tile_part);
    result.part = loop;
    result.row = {result.lane, result.part};
    return result;
  }

  void split_reduction() {
    c_.uses(config_.tiles);
    std::string loop = split_blocks(config_.kblock);
    if (config_.tiles > 1) steps_ = {split_off(loop, tile_.depth)};
    c_.uses(config_.unroll);
    if (config_.unroll > 1) unrolled_ = steps_;
    depth_ = loop;
  }

  /// Copies results through shared memory, because a lane has only two neighbours of a row, while a
  /// copy from shared memory writes 16 bytes at once. Rows in shared memory are 16 bytes longer, so
  /// that the eight rows that a warp writes at once use each bank equally.
  void stage_results(const TensorSide& outer, const TensorSide& inner) {
    if (config_.split > 1) return;  // partial sums are 32 bits wide
    c_.uses(config_.staged);
    if (config_.staged == 0) return;
    const Loops rows = concat({outer.outside(), outer.row});
    const Loops columns = concat({inner.outside(), inner.row});
    c_.schedule.add(CacheResult{name_, concat({rows, columns})});
    if (c_.schedule.error()) return;
    const std::string copy = copy_of_results(c_.schedule.nest(), name_)->stage.name;
    const int64_t elements = vector_bytes / facts_.result_bytes;
    c_.schedule.add(Pad{copy, columns.front(), elements});
    std::string column = fuse_all(c_, copy, columns);
    const std::string vectors = schedules::split_off(c_, copy, column, elements);
    share_copy(copy, concat({rows, {vectors}}), {column}, config_.threads, most_guarded_copies);
  }

  /// Adds the stage that copies an operand to shared memory, and returns its name. A warpgroup's
  /// instruction reads the operand K-major or MN-major. K-major operands are swizzled rows of a
  /// block of the reduction. MN-major operands are groups of neighbouring rows for each term.
  std::string cache(size_t side, const TensorSide& s) {
    const bool is_wide = tile_.is_of_warpgroup, is_mn = is_mn_major(side);
    const Loops rows = concat({s.outside(), s.row});
    const Loops loops = is_mn              ? concat({s.beyond(), steps_, {depth_}, s.inside, s.row})
                        : is_wide          ? concat({rows, steps_, {depth_}})
                        : keeps_rows(side) ? concat({steps_, {depth_}, rows})
                                           : concat({steps_, rows, {depth_}});
    const std::string operand = cache_operand(side, loops);
    if (!is_wide || operand.empty()) return operand;
    const int64_t neighbours = is_mn ? mn_neighbours(facts_, tile_, config_, side) : config_.kblock;
    c_.schedule.add(Swizzle{operand, neighbours * size_bytes(tile_.operand)});
    return operand;
  }

  /// True if a warpgroup's instruction reads the operand MN-major. This is the case if rows are
  /// contiguous in memory and a copy moves several of them at once.
  bool is_mn_major(size_t side) {
    const GpuProduct::Side& chosen = config_.sides[side];
    c_.uses(chosen.block, config_.warps[side]);
    if (mn_neighbours(facts_, tile_, config_, side) == 0) return false;
    c_.uses(config_.copies);
    if (chosen.is_box) return keeps_rows(side);
    c_.uses(chosen.copy);
    return chosen.copy == copy_across && !reduces_along_memory(facts_, side);
  }

  /// True if TMA copies the operand and its rows are neighbours in memory. They are then neighbours
  /// in shared memory too, because a TMA copy keeps the order.
  bool keeps_rows(size_t side) {
    c_.uses(config_.copies);
    return config_.sides[side].is_box && facts_.boxes[side] == TmaNeighbours::Rows;
  }

  /// Schedules the copy of an operand, by all threads of the block or by TMA. `outside` and `row`
  /// are the loops of the side, in the order in which the lanes of a warp copy single elements.
  void copy(size_t side, const std::string& operand, const TensorSide& s, const Loops& outside,
            const Loops& row) {
    if (operand.empty()) return;
    const bool is_mn = is_mn_major(side);
    const GpuProduct::Side& chosen = config_.sides[side];
    c_.uses(config_.copies);
    if (is_mn) return copy_neighbours(operand, s, chosen.is_box);
    if (chosen.is_box) return copy_box(side, operand, concat({outside, row}));
    c_.uses(chosen.copy);
    std::string depth = depth_;
    Loops loops, vector;
    if (chosen.copy == copy_terms) {
      const std::string outer = schedules::split_off(c_, operand, depth, vector_elements());
      loops = concat({outside, row, steps_, {outer}});
      vector = {depth};
    } else {
      loops = concat({steps_, outside, {depth}, row});
    }
    c_.schedule.add(Reorder{operand, concat({loops, vector})});
    if (chosen.copy == copy_across) {
      loops = concat({steps_, outside, {depth}});
      std::string eight = fuse_all(c_, operand, row);
      if (vector_elements() < lane_rows)
        loops.push_back(schedules::split_off(c_, operand, eight, vector_elements()));
      vector = {eight};
    }
    share_copy(operand, loops, vector, config_.threads,
               tile_.is_of_warpgroup ? most_guarded_of_warpgroup : most_guarded_copies);
  }

  void copy_box(size_t side, const std::string& operand, const Loops& rows) {
    std::string row = fuse_all(c_, operand, rows);
    // If axes are tiled separately, the rows lie in shared memory in the order of the box of these
    // axes.
    const GpuProduct::Side& chosen = config_.sides[side];
    for (size_t i = facts_.box_axes[side].size(); i > 1; --i)
      if (chosen.tiles[i - 1] > 1)
        row = schedules::split_off(c_, operand, row, chosen.tiles[i - 1]);
    if (tile_.is_of_warpgroup || keeps_rows(side))
      fuse_all(c_, operand, concat({steps_, {depth_}}));
  }

  /// Schedules the copy of an MN-major operand. The copy is a TMA box of groups by terms by
  /// neighbours, or is made by all threads of the block, with 16 bytes of neighbours each.
  void copy_neighbours(const std::string& operand, const TensorSide& s, bool is_box) {
    const Loops groups = s.beyond();
    std::string neighbours = fuse_all(c_, operand, concat({s.inside, s.row}));
    if (is_box) {
      if (!groups.empty()) fuse_all(c_, operand, groups);
      fuse_all(c_, operand, concat({steps_, {depth_}}));
      return;
    }
    const std::string pieces = schedules::split_off(c_, operand, neighbours, vector_elements());
    share_copy(operand, concat({groups, steps_, {depth_, pieces}}), {neighbours}, config_.threads,
               most_guarded_of_warpgroup);
  }

  int64_t vector_elements() const { return vector_bytes / size_bytes(tile_.operand); }

  const GpuTensor& config_;
  const TensorTile& tile_;
  Loops steps_;        // loops over tiles in a block of the reduction
  Loops unrolled_;     // the loops of steps_ that are unrolled
  std::string depth_;  // reduction loop of a tile
};

}  // namespace

int64_t tile_extent(const ProductFacts& facts, const TensorTile& tile, size_t side) {
  if (side == facts.inner()) return tile_columns;
  return tile.is_of_warpgroup ? warpgroup_rows : tile_rows;
}

int64_t mn_neighbours(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                      size_t side) {
  const int64_t own = config.sides[side].block / config.warps[side];
  const int64_t neighbours =
      side == facts.outer() ? most_mn_neighbours : std::min(own, most_mn_neighbours);
  return has_mn_major(tile, neighbours) && own % neighbours == 0 ? neighbours : 0;
}

/// Returns the bytes that the results of a block occupy in shared memory, with padded rows.
int64_t staged_bytes(const ProductFacts& facts, const GpuTensor& config) {
  const int64_t row = config.sides[facts.inner()].block * facts.result_bytes + vector_bytes;
  return round_up(config.sides[facts.outer()].block * row, tma_alignment);
}

void complete_tensor(const ProductFacts& facts, const TensorTile& tile, GpuTensor& config) {
  complete_product(facts, config);
  config.kblock = config.tiles * tile.depth;
  config.threads = warp_threads * (tile.is_of_warpgroup ? warpgroup_warps : 1);
  config.own_tiles = 1;
  int64_t elements = 0;
  for (size_t side = 0; side < product_sides; ++side) {
    const int64_t block = config.sides[side].block;
    config.threads *= config.warps[side];
    config.own_tiles *= block / config.warps[side] / tile_extent(facts, tile, side);
    elements += block * config.kblock;
  }
  config.sums = config.own_tiles * tile_part * tile_part;
  config.shared_bytes = shared_bytes_of(config, elements * size_bytes(tile.operand));
  if (config.staged == 1 && config.split == 1) config.shared_bytes += staged_bytes(facts, config);
}

bool tensor_fits(const ProductFacts& facts, const TensorTile& tile, const GpuTensor& config,
                 int64_t fragments) {
  for (size_t side = 0; side < product_sides; ++side)
    if (config.sides[side].block % (config.warps[side] * tile_extent(facts, tile, side)) != 0)
      return false;
  if (round_up(config.length, config.kblock) > 2 * config.length) return false;  // mostly padding
  // Producer warps give most of their registers to the other warps if their block is the only one
  // on a multiprocessor. If blocks share a multiprocessor, each thread keeps its registers.
  const bool shares = config.resident > 1 && config.copies >= by_producers;
  const int64_t threads = config.threads + (shares ? producer_threads : 0);
  const int64_t registers =
      std::min<int64_t>(facts.compute.target.machine.gpu->registers_per_thread,
                        most_block_registers / (config.resident * threads));
  return config.sums + fragments + own_registers <= registers &&
         config.own_tiles * config.tiles * tile.instructions <= most_multiplications &&
         product_fits(facts, config);
}

/// Returns a penalty for boxes that reach outside of the image or do not have the size of a block,
/// and a slight penalty for boxes far from eight by eight neighbours. The penalty does not depend
/// on whether TMA copies the operand, so that hill climbing finds good boxes before it lets TMA
/// copy them.
double box_penalty(const ProductFacts& facts, const GpuTensor& config, size_t side) {
  const size_t axes = facts.box_axes[side].size();
  if (axes == 0) return 0;
  const GpuProduct::Side& chosen = config.sides[side];
  int64_t points = 1;
  for (size_t i = 0; i < axes; ++i) points *= chosen.tiles[i];
  const auto covered = static_cast<double>(boxes_of(facts, config, side) * points);
  double penalty = 8 * std::log2(covered / static_cast<double>(facts.extents[side])) -
                   preference(points, static_cast<double>(chosen.block), 8);
  for (size_t i = 1; i < axes; ++i) penalty -= preference(chosen.tiles[i], 8, 0.1);
  return penalty;
}

double tensor_prior(const ProductFacts& facts, const GpuTensor& config) {
  double score = product_prior(facts, config);
  score += preference(config.stages, 2.5, 1) + preference(config.unroll, 4, 0.25);
  score += static_cast<double>(config.staged);
  for (size_t side = 0; side < product_sides; ++side) {
    const bool along = reduces_along_memory(facts, side);
    score -= config.sides[side].copy != (along ? copy_terms : copy_across);
    score -= box_penalty(facts, config, side);
  }
  return score;
}

GpuTensorStage::GpuTensorStage(const ComputePlan& compute, const StagePlan& plan,
                               const TensorTile& tile)
    : ProductStrategy(compute, plan,
                      {.rows = !tile.is_of_warpgroup || has_mn_major(tile, most_mn_neighbours),
                       .axes = tile.is_of_warpgroup}),
      tile_(tile) {
  for (size_t side = 0; side < product_sides; ++side)
    add_side_knob("warps", side, {1, 2, 4},
                  [side](GpuTensor& c) -> int64_t& { return c.warps[side]; });
  add_knob("tiles", {1, 2, 4}, &GpuTensor::tiles);
  for (size_t side = 0; side < product_sides; ++side) {
    add_block(side);
    add_copy(side, {copy_one, copy_terms, copy_across});
  }
  add_pipeline();
  add_box_axes();
  add_unroll();
  // Two neighbouring results of 32 bits in each lane fill whole sectors of memory; two of 16 bits
  // fill only half of a sector.
  if (facts_.result_bytes < word_bytes) add_knob("staged", {0, 1}, &GpuTensor::staged);
  add_order();
  add_launch_bounds();
}

Site GpuTensorStage::append_steps(const GpuTensor& config, const Site* inside,
                                  Construction& c) const {
  if (inside) {
    place_in_block(c, plan_, *inside);
  } else {
    TensorSteps(c, facts_, tile_, config).append();
  }
  return {};
}

}  // namespace tw::schedules
