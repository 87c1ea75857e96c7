// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts that strategies for products on GPUs share. A sum of products whose operands both have
// axes of their own is a matrix product of rows by columns (for a convolution, pixels by channels).
// A block of threads computes a block of the result. Blocks of the reduction pass through shared
// memory: the threads copy them together (cache_operand; implicit GEMM), several blocks ahead of
// their use (pipeline). The strategies in gpu_simt.cpp, gpu_mma.cpp and gpu_wgmma.cpp define how
// threads compute a block. Not thread-safe, but const calls are.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/program/tensor_tiles.h"
#include "schedules/program/tma_copies.h"
#include "schedules/space/construction.h"
#include "schedules/space/strategy.h"
#include "schedules/space/tma_choice.h"

namespace tw::schedules {

/// The sides of a product, and its operands.
inline constexpr size_t product_rows = 0, product_columns = 1, product_sides = 2;
inline constexpr std::string_view side_names[product_sides] = {"rows", "columns"};

// Accumulators live in registers; this bound leaves room for the operand fragments.
inline constexpr int64_t most_sums = 128;
// The largest number of statements in a product's innermost loop. With more statements, compiling
// costs more than the kernel gains.
inline constexpr int64_t most_multiplications = 512;
// Row padding that keeps vector accesses aligned and puts the 8 consecutive reduction elements
// copied by a quarter-warp into distinct shared-memory banks.
inline constexpr int64_t pad_words = 4, word_bytes = 4;
/// A value that outweighs all other terms of a stage's prior.
inline constexpr double far_better = 100;

/// Largest number of axes that are tiled separately: the dimensions of a box except the terms.
inline constexpr size_t most_box_axes = most_tma_dimensions - 1;

/// Values of `copies`: what copies the operands to shared memory. TMA copies the operands that the
/// strategy can use as boxes; threads copy the others.
enum ProductCopies : int64_t {
  /// copies by all threads; with several pipeline stages cp.async, if the target has it
  by_threads = 0,
  by_tma = 1,        ///< TMA copies that a computing thread issues
  by_producers = 2,  ///< TMA copies that producer warps issue (the step `specialise`)
  /// as by_producers, in blocks that compute several tasks (`persist`)
  by_persistent_producers = 3,
};

/// The part of the configuration that strategies for products share.
struct GpuProduct {
  struct Side {
    int64_t block = 8;  ///< rows, or columns, of a block of threads
    int64_t copy = 0;   ///< kind of copy by threads; the strategy defines the values
    int64_t pad = 0;    ///< words of padding between rows in shared memory, for copies by threads
    /// Extents of the boxes along the axes that are tiled separately (ProductFacts::box_axes). The
    /// first one is computed: block divided by the others.
    std::array<int64_t, most_box_axes> tiles = {1, 1, 1, 1};
    bool is_box = false;  ///< computed: TMA copies the operand
  };
  std::array<Side, product_sides> sides;
  int64_t stages = 1;  ///< number of blocks of the reduction that are in shared memory at once
  int64_t copies = by_threads;  ///< a ProductCopies
  int64_t unroll = 1;           ///< unroll factor within a block of the reduction
  /// 1 if the reduction axes are fused to one loop before it is blocked. If TMA copies an operand
  /// and there are several reduction axes, the loops outside of the blocks are fused instead.
  int64_t fused = 0;
  /// number of blocks of the outer side that run next to each other (rasterization)
  int64_t raster = 1;
  int64_t split = 1;  ///< number of parts of the main reduction, each with separate sums
  // Computed from the members above, partly by the strategy:
  int64_t length = 1;  ///< extent of the reduction loop that is blocked
  std::array<int64_t, product_sides> blocks = {1, 1};  ///< blocks of threads along each side
  int64_t kblock = 1;                                  ///< terms in a block of the reduction
  int64_t threads = 1;                                 ///< threads that compute a block
  int64_t sums = 1;          ///< accumulators of a thread, in 32-bit registers
  int64_t shared_bytes = 0;  ///< shared memory of a block: all stages, and the mbarriers
};

/// The boxes that a strategy can use in shared memory: those that are contiguous along the terms,
/// those that are contiguous along rows (or columns), and those whose axes are tiled separately.
struct UsableBoxes {
  bool terms = true, rows = true, axes = false;
};

/// Facts about the structure of a product that hold for every configuration.
struct ProductFacts {
  ProductFacts(const ComputePlan& compute, const StagePlan& plan, UsableBoxes usable);

  const ComputePlan& compute;
  const StagePlan& plan;
  const dsl::Stage& stage;
  bool rows_last;  ///< true if the contiguous dimension of the output is one of the rows
  /// The side whose neighbours are contiguous in the output, and the other side.
  size_t inner() const { return rows_last ? product_rows : product_columns; }
  size_t outer() const { return rows_last ? product_columns : product_rows; }
  const Loops& axes(size_t side) const;
  std::array<int64_t, product_sides> extents;  ///< extent of each side
  int64_t batches;
  int64_t terms;       ///< terms of a sum
  int64_t most_block;  ///< largest block of rows or columns
  std::vector<Expr> operands;
  /// For each operand, how TMA can copy it; None if the target has no TMA, or if the strategy
  /// cannot use the copy.
  std::array<TmaNeighbours, product_sides> boxes = {TmaNeighbours::None, TmaNeighbours::None};
  /// For each operand that TMA can copy, the axes that are then tiled separately; empty if they are
  /// fused to one loop.
  std::array<std::vector<TmaChoice::Axis>, product_sides> box_axes;
  /// For each operand, a layout in which TMA can copy it, if the schedule may choose the layout.
  std::array<ChosenLayout, product_sides> box_layouts;
  /// Bytes of an element that is stored, possibly after an epilogue converted it.
  int64_t result_bytes;
  /// If TMA copies an operand: the number of terms along the reduction axes other than the main
  /// one. One loop runs over the blocks of the main reduction for each of them.
  int64_t other_terms = 1;
};

/// The tensor tile that computes the stage with the accuracy of the stage's type; null if the
/// target has none, or if the stage is too small for it.
const TensorTile* tensor_tile_for(const ComputePlan& compute, const StagePlan& plan,
                                  bool is_of_warpgroup);

/// True if TMA copies an operand.
bool has_boxes(const GpuProduct& config);
/// Computes `length`, `blocks`, `is_box` and the first element of each `tiles`.
void complete_product(const ProductFacts& facts, GpuProduct& config);
/// Number of boxes that cover a side whose axes are tiled separately.
int64_t boxes_of(const ProductFacts& facts, const GpuProduct& config, size_t side);
/// Bytes of shared memory of a block of threads if one pipeline stage takes `stage_bytes`.
int64_t shared_bytes_of(const GpuProduct& config, int64_t stage_bytes);
/// True if the configuration can be used: `raster` divides the number of blocks, the parts of a
/// split reduction are long enough, TMA copies are of whole boxes, all stages of the pipeline are
/// used, and a block stays within the target's threads and shared memory.
bool product_fits(const ProductFacts& facts, const GpuProduct& config);
/// The heuristic prior. It prefers few idle multiprocessors and sums that are not split.
double product_prior(const ProductFacts& facts, const GpuProduct& config);
/// Minus the distance of `value` from `wanted`, in powers of two, times the weight.
double preference(int64_t value, double wanted, double weight);

/// True if neighbours in the operand's memory are terms of the same sum.
bool reduces_along_memory(const ProductFacts& facts, size_t side);

/// Base class of strategies for products. Requires: Config derives from GpuProduct.
template <typename Config>
class ProductStrategy : public Configured<Config> {
 public:
  ProductStrategy(const ComputePlan& compute, const StagePlan& plan, UsableBoxes usable)
      : Configured<Config>(compute, plan), facts_(compute, plan, usable) {}
  bool can_be_climbed() const override { return true; }

 protected:
  /// Adds a knob of one side. `member` selects the member of the configuration that the knob sets.
  void add_side_knob(std::string_view name, size_t side, std::vector<int64_t> values,
                     typename Configured<Config>::Member member) {
    this->add_knob(std::string(name) + "." + std::string(side_names[side]), std::move(values),
                   std::move(member));
  }
  void add_block(size_t side) {
    add_side_knob("block", side, powers(facts_.extents[side], 8, facts_.most_block),
                  [side](Config& c) -> int64_t& { return c.sides[side].block; });
  }
  void add_copy(size_t side, std::vector<int64_t> values) {
    add_side_knob("copy", side, std::move(values),
                  [side](Config& c) -> int64_t& { return c.sides[side].copy; });
  }
  /// Adds the knobs of the pipeline: the number of its stages, and, if TMA can copy an operand,
  /// what copies. Producers are offered only if TMA can copy both operands.
  void add_pipeline() {
    this->add_knob("stages", {1, 2, 3, 4}, &Config::stages);
    const auto others = std::count(facts_.boxes.begin(), facts_.boxes.end(), TmaNeighbours::None);
    if (others == 0)
      this->add_knob("copies", {by_threads, by_tma, by_producers, by_persistent_producers},
                     &Config::copies);
    else if (others < static_cast<ptrdiff_t>(product_sides))
      this->add_knob("copies", {by_threads, by_tma}, &Config::copies);
  }
  void add_unroll() { this->add_knob("unroll", {1, 2, 4, 8}, &Config::unroll); }
  /// Adds the knobs for boxes whose axes are tiled separately.
  void add_box_axes() {
    for (size_t side = 0; side < product_sides; ++side)
      for (size_t i = 1; i < facts_.box_axes[side].size(); ++i) {
        const TmaChoice::Axis& axis = facts_.box_axes[side][i];
        this->add_knob(
            "box." + axis.name,
            powers(extent_of(facts_.stage, axis.name), axis.least_tile, most_tma_iterations),
            [side, i](Config& c) -> int64_t& { return c.sides[side].tiles[i]; });
      }
  }
  /// Adds the knobs for the order of blocks, which every product has after the strategy's knobs.
  void add_order() {
    if (facts_.stage.reduction.size() > 1) this->add_knob("fused", {0, 1}, &Config::fused);
    this->add_knob("raster", {1, 2, 4, 8}, &Config::raster);
    std::vector<int64_t> splits;
    const std::string& main = facts_.plan.main_reduction;
    for (const int64_t split : {1, 2, 4, 8, 16, 32})
      if (split == 1 || (!main.empty() && extent_of(facts_.stage, main) % split == 0))
        splits.push_back(split);
    this->add_knob("split", splits, &Config::split);
  }

  const ProductFacts facts_;
};

/// Appends the steps that strategies for products share.
class ProductSteps {
 protected:
  ProductSteps(Construction& c, const ProductFacts& facts, const GpuProduct& config);

  /// Sets the layouts that TMA copies of operands need.
  void set_layouts();
  /// Stores the partial sums of a split reduction in an order in which the contiguous axis of the
  /// results is last. `axes` are those of the partial sums.
  void order_partials(const Loops& axes);
  /// Orders the axes for blocking: batches, rows, columns, reduction.
  void order_axes();
  /// Splits a side into a loop over blocks, whose name it returns, and a loop in a block, whose
  /// name it stores in `loop`.
  std::string split_side(size_t side, std::string& loop);
  /// Splits the innermost loop of the reduction, or the fused reduction, into blocks of `block`
  /// terms. Sets `outside_` and returns the loop in a block. If TMA copies an operand, the loops
  /// outside of the blocks are fused to one, whose iterations a pipeline can overlap.
  std::string split_blocks(int64_t block);
  /// Returns the loops over blocks of threads. A few blocks of the outer side are adjacent, so that
  /// blocks that run at the same time also share data of the inner side.
  Loops order_blocks(std::string outer, const std::string& inner);
  /// Stages an operand's block of the reduction in shared memory, in a buffer with these loops as
  /// dimensions. Returns the name of the new stage; empty if the step fails.
  std::string cache_operand(size_t side, const Loops& loops);
  /// Pipelines the copies of an operand by the configuration's number of stages.
  void pipeline(const std::string& operand);
  /// Makes the copies of an operand TMA copies if the configuration says so.
  void bulk(size_t side, const std::string& operand);
  /// Distributes the loops of a copy over `threads` threads, with the loops `vectors` as vectors
  /// inside of them. The elements that one thread copies are unrolled; if each has its own
  /// condition, only up to `most_guarded` elements.
  void share_copy(const std::string& operand, const Loops& loops, const Loops& vectors,
                  int64_t threads, int64_t most_guarded);
  void specialise();
  /// Schedules the final sums of a split reduction. Neighbouring threads compute neighbouring sums,
  /// and each thread reads all partial sums of its element at once.
  void sum_partials();

  std::string split_off(std::string& loop, int64_t factor) {
    return schedules::split_off(c_, name_, loop, factor);
  }

  Construction& c_;
  const ProductFacts& facts_;
  const GpuProduct& product_;
  std::string name_;  ///< the stage that is tiled: the product, or the stage of its partial sums
  Loops batch_;       ///< axes of that stage that both operands use
  Loops reduction_;   ///< reduction loops of that stage, the main loop innermost
  Loops outside_;     ///< reduction loops outside of the blocks
};

}  // namespace tw::schedules
