// SPDX-License-Identifier: Apache-2.0
// Strategy for a product on a GPU by scalar multiply-adds: each thread computes a tile of sums in
// registers, from operands that pass through shared memory (gpu_product.h).

#include <algorithm>

#include "schedules/nest.h"
#include "schedules/program/legality.h"
#include "schedules/strategies/gpu_product.h"
#include "schedules/strategies/gpu_rows.h"

namespace tw::schedules {
namespace {

constexpr int64_t least_threads = 32;
// Upper bound on the predicated elements that a thread copies in an unrolled loop.
constexpr int64_t most_guarded_elements = 256;

struct GpuSimt : GpuProduct {
  struct Tile {
    int64_t size = 1;    ///< rows or columns that a thread computes
    int64_t vector = 1;  ///< vector width: number of these rows or columns that are neighbours
  };
  std::array<Tile, product_sides> tiles;
};

/// The loops of one side of a block's tile. Along the side a thread computes vectors of
/// neighbouring elements. The vectors of one thread lie at a stride, and those of the other threads
/// lie between them, so that the vectors of neighbouring threads are neighbours.
struct SimtSide {
  std::string block;      ///< loop over tiles
  Loops strided, vector;  ///< one loop or none each
  std::string thread;

  Loops of_thread() const { return concat({strided, vector}); }
  Loops all() const { return concat({strided, {thread}, vector}); }
};

class SimtSteps : ProductSteps {
 public:
  SimtSteps(Construction& c, const ProductFacts& facts, const GpuSimt& config)
      : ProductSteps(c, facts, config), config_(config) {}

  void append() {
    order_axes();
    const std::array<SimtSide, product_sides> sides = {split_side(product_rows),
                                                       split_side(product_columns)};
    const Loops reduction = split_reduction();
    // Neighbouring threads compute neighbouring results.
    const SimtSide &outer = sides[facts_.outer()], &inner = sides[facts_.inner()];
    const Loops blocks = order_blocks(outer.block, inner.block);
    c_.schedule.add(Reorder{name_, concat({blocks,
                                           outside_,
                                           {outer.thread, inner.thread},
                                           reduction,
                                           outer.of_thread(),
                                           inner.of_thread()})});
    c_.schedule.add(CacheWrite{name_, blocks.back()});
    std::array<std::string, product_sides> operands;
    for (size_t side = 0; side < product_sides; ++side)
      operands[side] = cache_operand(side, concat({reduction, sides[side].all()}));
    for (const std::string& loop : blocks) c_.schedule.add(Parallel{name_, loop});
    for (const std::string& loop : {outer.thread, inner.thread}) c_.schedule.add(Bind{name_, loop});
    if (!unrolled_.empty()) c_.schedule.add(Unroll{name_, unrolled_});
    for (const std::string& loop : inner.vector) c_.schedule.add(Vectorize{name_, loop});
    unroll(c_, name_, concat({outer.of_thread(), inner.strided}));
    for (size_t side = 0; side < product_sides; ++side)
      copy(side, operands[side], sides[side], reduction);
    shape_blocks();
    sum_partials();
  }

 private:
  SimtSide split_side(size_t side) {
    const int64_t& block = config_.sides[side].block;
    const GpuSimt::Tile& tile = config_.tiles[side];
    std::string loop = fuse_all(c_, name_, facts_.axes(side));
    SimtSide result;
    c_.uses(block);
    result.block = split_off(loop, block);
    c_.uses(tile.size, tile.vector);
    const int64_t width = std::min(tile.vector, tile.size);
    if (width < tile.size) result.strided = {split_off(loop, block / tile.size * width)};
    result.thread = loop;
    if (width > 1) {
      result.thread = split_off(loop, width);
      result.vector = {loop};
    }
    return result;
  }

  /// Splits the reduction; returns the loops within a block of it.
  Loops split_reduction() {
    c_.uses(config_.kblock);
    std::string loop = split_blocks(config_.kblock);
    c_.uses(config_.unroll);
    if (config_.unroll == 1) return {loop};
    if (config_.unroll >= config_.kblock) {
      unrolled_ = loop;
      return {loop};
    }
    const std::string rest = split_off(loop, config_.unroll);
    unrolled_ = loop;
    return {rest, loop};
  }

  /// Schedules the copy of an operand by all threads of the block; neighbouring threads copy
  /// neighbouring elements.
  void copy(size_t side, const std::string& operand, const SimtSide& loops_of,
            const Loops& reduction) {
    if (operand.empty()) return;
    const GpuProduct::Side& chosen = config_.sides[side];
    pipeline(operand);
    c_.uses(config_.copies);
    if (chosen.is_box) {
      fuse_all(c_, operand, reduction);
      fuse_all(c_, operand, loops_of.all());
      return bulk(side, operand);
    }
    c_.uses(chosen.copy);
    Loops loops = concat({reduction, loops_of.all()}), vector;
    if (chosen.copy == 1) {
      pad(side, operand, loops_of);
      loops = concat({loops_of.all(), reduction});
      c_.schedule.add(Reorder{operand, loops});
    } else if (!loops_of.vector.empty()) {
      vector = loops_of.vector;
      loops.pop_back();
    }
    share_copy(operand, loops, vector, config_.threads, most_guarded_elements);
  }

  void pad(size_t side, const std::string& operand, const SimtSide& loops) {
    c_.uses(config_.sides[side].pad);
    const int64_t bytes = config_.sides[side].pad * word_bytes;
    const StageNest* nest = c_.find(operand);
    if (bytes > 0 && nest)
      c_.schedule.add(Pad{operand, loops.all().front(), bytes / size_bytes(nest->stage.type)});
  }

  const GpuSimt& config_;
  std::string unrolled_;  // unrolled loop within a block of the reduction, or empty
};

class GpuSimtStage : public ProductStrategy<GpuSimt> {
 public:
  GpuSimtStage(const ComputePlan& compute, const StagePlan& plan)
      : ProductStrategy(compute, plan, {.terms = false}) {
    for (size_t side = 0; side < product_sides; ++side) {
      add_block(side);
      add_side_knob("tile", side, {1, 2, 4, 8},
                    [side](GpuSimt& c) -> int64_t& { return c.tiles[side].size; });
      add_side_knob("together", side, {1, 2, 4},
                    [side](GpuSimt& c) -> int64_t& { return c.tiles[side].vector; });
      // 1: threads copy neighbours along the reduction, in rows that may be padded
      add_copy(side, {0, 1});
      add_side_knob("pad", side, {0, pad_words},
                    [side](GpuSimt& c) -> int64_t& { return c.sides[side].pad; });
    }
    add_pipeline();
    add_knob("kblock", powers(facts_.terms, 4, 32), &GpuSimt::kblock);
    add_unroll();
    add_order();
    add_launch_bounds();
  }

 private:
  void complete(GpuSimt& config) const override {
    complete_product(facts_, config);
    config.threads = config.sums = 1;
    int64_t stage_bytes = 0;
    for (size_t side = 0; side < product_sides; ++side) {
      const GpuProduct::Side& chosen = config.sides[side];
      const GpuSimt::Tile& tile = config.tiles[side];
      config.threads *= chosen.block / tile.size;
      config.sums *= tile.size;
      const int64_t padding = chosen.copy == 1 && !chosen.is_box ? chosen.pad * word_bytes : 0;
      stage_bytes += config.kblock * (chosen.block * size_bytes(stage_.type) + padding);
    }
    config.shared_bytes = shared_bytes_of(config, stage_bytes);
  }

  bool fits(const GpuSimt& config) const override {
    for (size_t side = 0; side < product_sides; ++side) {
      const GpuSimt::Tile& tile = config.tiles[side];
      if (tile.size > config.sides[side].block || tile.vector > tile.size) return false;
    }
    return config.threads >= least_threads && config.unroll <= config.kblock &&
           config.sums * config.unroll <= most_multiplications && product_fits(facts_, config);
  }

  double prior(const GpuSimt& config, bool placed) const override {
    double score = product_prior(facts_, config) + placed;
    for (size_t side = 0; side < product_sides; ++side) {
      score += preference(config.sides[side].block, 64, 1);
      score += preference(config.tiles[side].size, 4, 2);
      score += preference(config.tiles[side].vector, 4, 0.5);
      if (config.sides[side].copy == 1 && config.sides[side].pad == 0) score -= 0.5;
    }
    score += preference(config.kblock, 8, 0.5);
    score += preference(config.stages, copies_asynchronously(compute_.target) ? 2.5 : 1, 1);
    score -= static_cast<double>(config.copies);
    return score + preference(config.unroll, 4, 0.5);
  }

  Site append_steps(const GpuSimt& config, const Site* inside, Construction& c) const override {
    if (inside) {
      place_in_block(c, plan_, *inside);
    } else {
      SimtSteps(c, facts_, config).append();
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<const StageStrategy> gpu_simt(const ComputePlan& plan, const StagePlan& stage) {
  if (!plan.target.is_gpu() || !stage.is_product()) return nullptr;
  return std::make_unique<GpuSimtStage>(plan, stage);
}

}  // namespace tw::schedules
