// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts that strategies for products on GPUs share. If both operands of a sum of products have
// axes of their own, the sum is a matrix product of rows by columns (for a convolution, of pixels
// by channels). A block of threads computes a block of the result. The reduction is cut into blocks
// of terms. The operands of a block of terms are copied to shared memory by all threads of the
// block together (cache_operand; implicit GEMM), several blocks of terms ahead of their use
// (pipeline). The strategies in gpu_simt.cpp, gpu_mma.cpp and gpu_wgmma.cpp define how threads
// compute a block of the result. Not thread-safe, but const calls are.
//
// For example, take 1,024 rows, 1,024 columns and 1,024 terms, with block.rows=128,
// block.columns=64, blocks of 32 terms, and stages=3. There are 8 x 16 blocks of threads. Each of
// them runs through 32 blocks of terms. Shared memory holds the operands of three blocks of terms
// at once, each of (128 + 64) * 32 elements.

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

/// The sides of a product, as indices. Operand 0 has the rows, and operand 1 the columns.
inline constexpr size_t product_rows = 0, product_columns = 1, product_sides = 2;
inline constexpr std::string_view side_names[product_sides] = {"rows", "columns"};

// The largest number of accumulators of a thread. They live in registers, and this bound leaves
// registers for the elements of operands.
inline constexpr int64_t most_sums = 128;
// The largest number of statements in a product's innermost loop. With more statements, compiling
// costs more than the kernel gains.
inline constexpr int64_t most_multiplications = 512;
// Padding of the rows of operands in shared memory: `pad_words` words of `word_bytes` bytes. With 4
// words, vector accesses stay aligned, and the 8 consecutive terms that a quarter-warp copies lie
// in different banks.
inline constexpr int64_t pad_words = 4, word_bytes = 4;
/// A summand of a prior that outweighs all others.
inline constexpr double far_better = 100;

/// Largest number of axes of an operand that are tiled separately (TmaChoice::axes). Each of these
/// axes is a dimension of a box, and the terms are one more of the dimensions that a TMA copy may
/// have.
inline constexpr size_t most_box_axes = most_tma_dimensions - 1;

/// Values of the knob `copies`, which decides who copies the operands to shared memory. With TMA,
/// threads still copy an operand that the strategy cannot use as a box.
enum ProductCopies : int64_t {
  /// all threads copy, by cp.async if the target has it and there are several pipeline stages
  by_threads = 0,
  by_tma = 1,        ///< TMA copies that a computing thread issues
  by_producers = 2,  ///< TMA copies that producer warps issue (the step `specialise`)
  /// as by_producers, and in addition each block of threads computes several tasks (the step
  /// `persist`)
  by_persistent_producers = 3,
};

/// The part of the configuration that all strategies for products share.
struct GpuProduct {
  struct Side {
    int64_t block = 8;  ///< rows, or columns, that a block of threads computes
    int64_t copy = 0;   ///< kind of copy if threads copy; each strategy defines the values
    int64_t pad = 0;    ///< words of padding between rows in shared memory, if threads copy
    /// Extents of a box along the axes that are tiled separately (ProductFacts::box_axes). The
    /// first extent is computed, so that the product of all extents is `block`. For example, block
    /// 128 and the knobs box.y=8 and box.x=8 give boxes of 2 images of 8 x 8 pixels.
    std::array<int64_t, most_box_axes> tiles = {1, 1, 1, 1};
    bool is_box = false;  ///< computed: true if TMA copies the operand
  };
  std::array<Side, product_sides> sides;
  int64_t stages = 1;  ///< number of blocks of the reduction whose operands are in shared memory at
                       ///< once
  int64_t copies = by_threads;  ///< a value of ProductCopies
  /// number of blocks of threads that must fit into the registers of a multiprocessor at once (the
  /// step `launch_bounds`)
  int64_t resident = 1;
  int64_t unroll = 1;  ///< unroll factor within a block of the reduction
  /// 1 if the reduction axes are fused to one loop, which is then cut into blocks. The knob has no
  /// effect if TMA copies an operand and there are several reduction axes. In this case only the
  /// main axis is cut into blocks, and the loops outside of the blocks are fused.
  int64_t fused = 0;
  /// Number of blocks of the outer side in a group (rasterization). Blocks start in the order of
  /// their indices, group after group. With raster=4 and rows as the outer side, a group is 4 rows
  /// of blocks, and the indices in a group run column by column.
  int64_t raster = 1;
  int64_t split = 1;  ///< number of parts of the main reduction that are summed separately
  // Computed from the members above, partly by the strategy:
  int64_t length = 1;  ///< extent of the reduction loop that is cut into blocks
  std::array<int64_t, product_sides> blocks = {1, 1};  ///< number of blocks along each side
  int64_t kblock = 1;                                  ///< terms in a block of the reduction
  int64_t threads = 1;                                 ///< threads of a block
  int64_t sums = 1;          ///< accumulators of a thread, in 32-bit registers
  int64_t shared_bytes = 0;  ///< bytes of shared memory of a block of threads: the operands of all
                             ///< pipeline stages, and the mbarriers
};

/// The kinds of boxes in shared memory that a strategy can use. `terms` are boxes whose neighbours
/// in memory are terms, and `rows` are boxes whose neighbours are rows or columns (TmaNeighbours).
/// `axes` are boxes of terms whose axes are tiled separately (TmaChoice::axes).
struct UsableBoxes {
  bool terms = true, rows = true, axes = false;
};

/// Facts about a product that hold for every configuration.
struct ProductFacts {
  ProductFacts(const ComputePlan& compute, const StagePlan& plan, UsableBoxes usable);

  const ComputePlan& compute;
  const StagePlan& plan;
  const dsl::Stage& stage;
  bool rows_last;  ///< true if the contiguous dimension of the output is one of the rows
  /// inner() is the side along which the output is contiguous, and outer() is the other side.
  size_t inner() const { return rows_last ? product_rows : product_columns; }
  size_t outer() const { return rows_last ? product_columns : product_rows; }
  const Loops& axes(size_t side) const;
  std::array<int64_t, product_sides> extents;  ///< extent of each side
  int64_t batches;
  int64_t terms;       ///< terms of a sum
  int64_t most_block;  ///< largest block of rows or columns
  std::vector<Expr> operands;
  /// For each operand, the direction along which elements of its boxes are neighbours in memory. It
  /// is None if the target has no TMA, if TMA cannot copy the operand, or if the strategy cannot
  /// use the operand's boxes.
  std::array<TmaNeighbours, product_sides> boxes = {TmaNeighbours::None, TmaNeighbours::None};
  /// For each operand that TMA can copy, the axes that are tiled separately if TMA copies it. The
  /// list is empty if all axes of the operand are fused to one loop.
  std::array<std::vector<TmaChoice::Axis>, product_sides> box_axes;
  /// For each operand, the layout that its tensor must get so that TMA can copy it; empty texts if
  /// no layout needs to be set.
  std::array<ChosenLayout, product_sides> box_layouts;
  /// Bytes of an element of the result in memory. Its type may differ from that of the sums,
  /// because an epilogue may convert it.
  int64_t result_bytes;
  /// The product of the extents of all reduction axes except the main one, such as the 9 taps of a
  /// 3 x 3 convolution. It matters if TMA copies an operand: for each of these taps there is then a
  /// loop over the blocks of the main reduction.
  int64_t other_terms = 1;
};

/// Returns the tensor tile, of a warp or of a warpgroup, that computes the stage as accurately as
/// the stage's type requires. Null if the target has no such tile, or if the stage is too small for
/// it.
const TensorTile* tensor_tile_for(const ComputePlan& compute, const StagePlan& plan,
                                  bool is_of_warpgroup);

/// True if TMA copies at least one operand in this configuration.
bool has_boxes(const GpuProduct& config);
/// Computes `length` and `blocks`, and for each side `is_box` and the first of its `tiles`.
void complete_product(const ProductFacts& facts, GpuProduct& config);
/// Returns the number of boxes that cover a side whose axes are tiled separately. Incomplete boxes
/// count too.
int64_t boxes_of(const ProductFacts& facts, const GpuProduct& config, size_t side);
/// Returns the bytes of shared memory of a block of threads. `stage_bytes` are the bytes of the
/// operands in one stage of the pipeline.
int64_t shared_bytes_of(const GpuProduct& config, int64_t stage_bytes);
/// True if the knob `split` offers to sum `terms` terms in `parts` parts: the parts are equally
/// long, or the last one is shorter and all others are long enough.
bool may_split(int64_t terms, int64_t parts);
/// True if the configuration can be used. Seven conditions must hold. `raster` divides the number
/// of blocks of the outer side. The parts of a split reduction are long enough. The loop over
/// blocks of terms has at least as many iterations as the pipeline has stages. TMA copies are of
/// whole boxes. The block of threads has room for the producer warps, if there are any. The threads
/// and the shared memory of a block stay within the target's limits. A thread has at most
/// `most_sums` accumulators.
bool product_fits(const ProductFacts& facts, const GpuProduct& config);
/// Returns the part of the heuristic prior that strategies for products share. It prefers that few
/// multiprocessors are idle, that sums are not split, and that `raster` and `resident` are 1.
double product_prior(const ProductFacts& facts, const GpuProduct& config);

/// Returns the numbers of rows, or columns, that a block of threads may compute: powers of two, and
/// 192 if warpgroups can compute the product and the side is longer than 128.
std::vector<int64_t> block_sizes(const ProductFacts& facts, size_t side);

/// True if elements of the side's operand that are neighbours in memory are terms of the same sum.
bool reduces_along_memory(const ProductFacts& facts, size_t side);

/// Base class of strategies for products. Requires: Config derives from GpuProduct.
template <typename Config>
class ProductStrategy : public Configured<Config> {
 public:
  ProductStrategy(const ComputePlan& compute, const StagePlan& plan, UsableBoxes usable)
      : Configured<Config>(compute, plan), facts_(compute, plan, usable) {}
  bool can_be_climbed() const override { return true; }

 protected:
  /// Adds a knob for one side. For the name "block" and the side of the rows, the knob's name is
  /// "block.rows". `member` selects the member of the configuration that the knob sets.
  void add_side_knob(std::string_view name, size_t side, std::vector<int64_t> values,
                     typename Configured<Config>::Member member) {
    this->add_knob(std::string(name) + "." + std::string(side_names[side]), std::move(values),
                   std::move(member));
  }
  void add_block(size_t side) {
    add_side_knob("block", side, block_sizes(facts_, side),
                  [side](Config& c) -> int64_t& { return c.sides[side].block; });
  }
  void add_copy(size_t side, std::vector<int64_t> values) {
    add_side_knob("copy", side, std::move(values),
                  [side](Config& c) -> int64_t& { return c.sides[side].copy; });
  }
  /// Adds the knobs of the pipeline. `stages` is the number of its stages. `copies`, a
  /// ProductCopies, is added if TMA can copy an operand. Its values with producer warps are offered
  /// only if TMA can copy both operands.
  void add_pipeline() {
    this->add_knob("stages", {1, 2, 3, 4, 5, 6, 7}, &Config::stages);
    const auto others = std::count(facts_.boxes.begin(), facts_.boxes.end(), TmaNeighbours::None);
    if (others == 0)
      this->add_knob("copies", {by_threads, by_tma, by_producers, by_persistent_producers},
                     &Config::copies);
    else if (others < static_cast<ptrdiff_t>(product_sides))
      this->add_knob("copies", {by_threads, by_tma}, &Config::copies);
  }
  /// Adds the knob `resident`, on targets whose compiler takes launch bounds.
  void add_launch_bounds() {
    if (facts_.compute.target.architecture == Architecture::Cuda)
      this->add_optional_knob("resident", {1, 2}, &Config::resident);
  }
  void add_unroll() { this->add_knob("unroll", {1, 2, 4, 8}, &Config::unroll); }
  /// Adds the knobs "box.<axis>", which set the extents of boxes along axes that are tiled
  /// separately. The first of these axes has no knob, because the extent along it follows from the
  /// others.
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
  /// Adds the knobs `raster` and `split`, and `fused` if there are several reduction axes. They
  /// follow the knobs of the strategy.
  void add_order() {
    if (facts_.stage.reduction.size() > 1) this->add_knob("fused", {0, 1}, &Config::fused);
    this->add_knob("raster", {1, 2, 4, 8}, &Config::raster);
    std::vector<int64_t> splits;
    const std::string& main = facts_.plan.main_reduction;
    for (const int64_t split : {1, 2, 4, 8, 16, 32})
      if (split == 1 || (!main.empty() && may_split(extent_of(facts_.stage, main), split)))
        splits.push_back(split);
    this->add_knob("split", splits, &Config::split);
  }

  const ProductFacts facts_;
};

/// Appends the steps that strategies for products share.
class ProductSteps {
 protected:
  ProductSteps(Construction& c, const ProductFacts& facts, const GpuProduct& config);

  /// Sets the layouts that operands need so that TMA can copy them.
  void set_layouts();
  /// Sets the layout of the partial sums of a split reduction. In it the axis along which the
  /// results are contiguous is the last one. `axes` are the axes of the partial sums.
  void order_partials(const Loops& axes);
  /// Reorders the loops to the order that blocking starts from: batch, rows, columns, reduction.
  void order_axes();
  /// Fuses and splits the loops of a side into a loop over blocks and a loop within a block.
  /// Returns the name of the loop over blocks, and stores the name of the loop within a block in
  /// `loop`.
  std::string split_side(size_t side, std::string& loop);
  /// Splits the innermost loop of the reduction, or the fused reduction loop, into blocks of
  /// `block` terms. Returns the loop within a block, and sets `outside_` to the reduction loops
  /// around it. If TMA copies an operand, the loops in `outside_` are fused to one loop, so that a
  /// pipeline runs through all their iterations.
  std::string split_blocks(int64_t block);
  /// Returns the loops over blocks of threads in their final order. `outer` and `inner` are the
  /// loops over the blocks of the two sides. `raster` blocks of the outer side form a group
  /// (GpuProduct::raster). Blocks of threads that run at the same time then share data of both
  /// sides, not only of the outer one.
  Loops order_blocks(std::string outer, const std::string& inner);
  /// Adds a stage that copies a block of terms of an operand to shared memory. The dimensions of
  /// the buffer are `loops`. Returns the name of the new stage, or an empty name if the step fails.
  std::string cache_operand(size_t side, const Loops& loops);
  /// Pipelines the copies of a staged operand, if the configuration has several stages.
  void pipeline(const std::string& operand);
  /// Makes the copies of the staged operand of a side TMA copies, if the configuration says so.
  void bulk(size_t side, const std::string& operand);
  /// Distributes the copies of a staged operand over `threads` threads. `loops` are fused and
  /// shared by the threads. `vectors` are loops inside of `loops` that become vectors. The loop
  /// over the copies of one thread is unrolled if it has at most 16 iterations. If the copies have
  /// conditions, it is unrolled only if it also copies at most `most_guarded` elements.
  void share_copy(const std::string& operand, const Loops& loops, const Loops& vectors,
                  int64_t threads, int64_t most_guarded);
  /// Appends the steps about the blocks of threads: producer warps, several tasks in a block, and
  /// launch bounds.
  void shape_blocks();
  /// Schedules the final sums of a split reduction. Neighbouring threads compute neighbouring sums,
  /// and each thread reads all partial sums of its element in unrolled code.
  void sum_partials();

  std::string split_off(std::string& loop, int64_t factor) {
    return schedules::split_off(c_, name_, loop, factor);
  }

  Construction& c_;
  const ProductFacts& facts_;
  const GpuProduct& product_;
  std::string name_;  ///< name of the tiled stage: the product, or the stage of its partial sums if
                      ///< the reduction is split
  Loops batch_;       ///< axes of the tiled stage that both operands use
  Loops reduction_;   ///< reduction loops of the tiled stage, the main loop last
  Loops outside_;     ///< reduction loops around the loop within a block
};

}  // namespace tw::schedules
