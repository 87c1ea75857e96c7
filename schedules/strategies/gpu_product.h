// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the strategies for products on GPUs. A reduction of a product whose operands
// have axes of their own is a matrix product, rows by columns (a convolution: pixels by channels).
// A block of threads computes a block of it; blocks of the reduction pass through shared memory,
// where the threads put them together (cache_operand; implicit GEMM), several blocks ahead of what
// is computed (pipeline). How threads compute a block is for the strategies: gpu_simt.cpp,
// gpu_mma.cpp, gpu_wgmma.cpp. Not thread-safe, but for what is const.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/box_choice.h"
#include "schedules/construction.h"
#include "schedules/strategy.h"
#include "schedules/tensor_tiles.h"

namespace tw::schedules {

/// The sides of a product, and its operands.
inline constexpr size_t product_rows = 0, product_columns = 1, product_sides = 2;
inline constexpr std::string_view side_names[product_sides] = {"rows", "columns"};

// Accumulators live in registers; this bound leaves room for the operand fragments.
inline constexpr int64_t most_sums = 128;
// Statements of a product's innermost loop: beyond, compiling takes longer than they save.
inline constexpr int64_t most_products = 512;
// Row padding that keeps vector accesses aligned and puts the 8 consecutive reduction elements
// copied by a quarter-warp into distinct shared-memory banks.
inline constexpr int64_t pad_words = 4, word_bytes = 4;
/// More than all else that a prior says of a stage.
inline constexpr double far_better = 100;

/// The part of a configuration that all products have.
struct GpuProduct {
  struct Side {
    int64_t block = 8;  ///< rows, or columns, of a block of threads
    int64_t copy = 0;   ///< neighbours that a thread copies to shared memory at once: a strategy's
    int64_t pad = 0;    ///< words between rows in shared memory, where a strategy pads them
    int64_t bulk = 0;   ///< 1: boxes that the copy engine moves
  };
  std::array<Side, product_sides> sides;
  int64_t stages = 1;      ///< blocks of the reduction in shared memory at once
  int64_t specialise = 0;  ///< 1: threads of their own ask for boxes
  int64_t unroll = 1;      ///< of a block of the reduction
  int64_t fused = 0;       ///< 1: the reduction is fused to one loop before it is blocked
  int64_t raster = 1;      ///< blocks of the outer side that are next to each other
  int64_t split = 1;       ///< parts of the main reduction, each with sums of its own
  // Derived from these, partly by the strategy:
  int64_t length = 1;  ///< of the loop over the reduction that is blocked
  std::array<int64_t, product_sides> blocks = {1, 1};  ///< of threads, along each side
  int64_t kblock = 1;        ///< elements of the reduction in a block of it
  int64_t threads = 1;       ///< that compute a block
  int64_t sums = 1;          ///< accumulators of a thread, registers of 32 bits
  int64_t shared_bytes = 0;  ///< of a block: all stages, and the barriers of boxes
};

/// Facts about the structure of a product, the same for every configuration.
struct ProductFacts {
  ProductFacts(const ComputePlan& compute, const StagePlan& plan);

  const ComputePlan& compute;
  const StagePlan& plan;
  const dsl::Stage& stage;
  bool rows_last;  ///< the dimension that is contiguous in the output is one of the rows
  /// The side whose neighbours are contiguous in the output, and the other one.
  size_t inner() const { return rows_last ? product_rows : product_columns; }
  size_t outer() const { return rows_last ? product_columns : product_rows; }
  const Loops& axes(size_t side) const;
  std::array<int64_t, product_sides> extents;  ///< of each side
  int64_t batches;
  int64_t terms;       ///< of a sum
  int64_t most_block;  ///< of rows or columns
  std::vector<Expr> operands;
  /// Operands that the copy engine can move; None where the target has no copy engine, or where no
  /// strategy would use it.
  std::array<BoxNeighbours, product_sides> boxes = {BoxNeighbours::None, BoxNeighbours::None};
};

/// The tensor tile that computes what the stage means as exactly as its type does, where the target
/// has it and the stage is not too small for it; null where there is none.
const TensorTile* tensor_tile_for(const ComputePlan& compute, const StagePlan& plan,
                                  bool is_of_warpgroup);

/// Computes `length` and `blocks`.
void complete_product(const ProductFacts& facts, GpuProduct& config);
/// Bytes of shared memory for so many in a stage of the pipeline.
int64_t shared_bytes_of(const GpuProduct& config, int64_t stage_bytes);
/// Blocks are in an order that divides them, parts of a split are worth a sum, boxes are whole and
/// no other choice says how they are copied, the stages of the pipeline are filled, and a block has
/// as many threads and as much shared memory as the target allows.
bool product_fits(const ProductFacts& facts, const GpuProduct& config);
/// Prefers few multiprocessors without a block, whole sums, plain copies.
double product_prior(const ProductFacts& facts, const GpuProduct& config);
/// Minus the distance of a value from the wanted one, in powers of two, times the weight.
double preference(int64_t value, double wanted, double weight);

/// Whether elements of the operand that are neighbours in memory are terms of one sum.
bool reduces_along_memory(const ProductFacts& facts, size_t side);

/// A product's strategy; Config derives from GpuProduct.
template <typename Config>
class ProductStrategy : public Configured<Config> {
 public:
  ProductStrategy(const ComputePlan& compute, const StagePlan& plan)
      : Configured<Config>(compute, plan), facts_(compute, plan) {}
  bool can_be_climbed() const override { return true; }

 protected:
  /// A knob of one side: its member is given by a function of the configuration.
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
    add_side_knob("pad", side, {0, pad_words},
                  [side](Config& c) -> int64_t& { return c.sides[side].pad; });
  }
  /// The pipeline, and boxes for the operands that may be copied in bulk.
  void add_pipeline() {
    this->add_knob("stages", {1, 2, 3, 4}, &Config::stages);
    size_t boxes = 0;
    for (size_t side = 0; side < product_sides; ++side) {
      if (facts_.boxes[side] == BoxNeighbours::None) continue;
      ++boxes;
      add_side_knob("bulk", side, {0, 1},
                    [side](Config& c) -> int64_t& { return c.sides[side].bulk; });
    }
    if (boxes == product_sides) this->add_knob("specialise", {0, 1}, &Config::specialise);
  }
  void add_unroll() { this->add_knob("unroll", {1, 2, 4, 8}, &Config::unroll); }
  /// The knobs that every product has after its own ones.
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

/// Appends the steps that all products have.
class ProductSteps {
 protected:
  ProductSteps(Construction& c, const ProductFacts& facts, const GpuProduct& config);

  /// Batches, rows, columns, reduction: the order in which blocks are split.
  void order_axes();
  /// Splits blocks of `block` off the innermost loop of the reduction, or off all of it fused; sets
  /// `outside_` and returns the loop of a block.
  std::string split_blocks(int64_t block);
  /// The loops over blocks of threads. Of the outer side a few at a time are next to each other, so
  /// that blocks which run at once share what they read of the inner one too.
  Loops order_blocks(std::string outer, const std::string& inner);
  /// The stage that holds an operand's block of the reduction, with these loops as dimensions; its
  /// name, empty where the step fails.
  std::string cache_operand(size_t side, const Loops& loops);
  /// The copies of an operand are as many blocks of the reduction ahead as the pipeline has stages.
  void pipeline(const std::string& operand);
  void bulk(size_t side, const std::string& operand);
  /// The loops of a copy, and vectors inside of them, to so many threads. Turns of a thread are
  /// unrolled up to `most_guarded` elements, where each has a condition of its own.
  void share_copy(const std::string& operand, const Loops& loops, const Loops& vectors,
                  int64_t threads, int64_t most_guarded);
  void specialise();
  /// The sums of a split reduction: neighbouring sums to neighbouring threads, each of which reads
  /// all partial ones at once.
  void sum_partials();

  std::string split_off(std::string& loop, int64_t factor) {
    return schedules::split_off(c_, name_, loop, factor);
  }

  Construction& c_;
  const ProductFacts& facts_;
  const GpuProduct& product_;
  std::string name_;  ///< of the stage that is tiled: the product, or its partial sums
  Loops batch_;       ///< its axes that both operands use
  Loops reduction_;   ///< its reduction, the main loop innermost
  Loops outside_;     ///< of the reduction: around its blocks, and over them
};

}  // namespace tw::schedules
