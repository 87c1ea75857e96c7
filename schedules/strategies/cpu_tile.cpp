// SPDX-License-Identifier: Apache-2.0
// A reduction on a CPU by a register tile over a vector axis and up to three more axes. These are
// tiled separately or, if they are adjacent, may be fused and tiled as one loop. Along the vector
// axis every tensor that uses the axis is contiguous, or can be packed to be. If there is no such
// axis, the elements of a vector lie a few elements apart in the result. The knobs decide about
// K-blocking, unrolling, loop orders, and packed layouts that follow the loops (NeoCPU, ATC'19,
// section 3.1). cpu_tile.h has an example.

#include "schedules/strategies/cpu_tile.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/integer.h"
#include "base/text.h"
#include "schedules/nest.h"
#include "schedules/program/dot_products.h"
#include "schedules/program/legality.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/cpu_loops.h"

namespace tw::schedules {
namespace {

using dsl::Axis;
using dsl::Stage;

// The length of the longest tile along an axis. The prior does not ask for more accumulators
// either.
constexpr int64_t most_accumulators = 28;
// The length of the shortest tile of fused axes. Shorter tiles need more loads than
// multiplications.
constexpr int64_t least_fused = 4;
// The number of knobs before those of the tile: the vector axis, and the number of vectors.
constexpr size_t first_tile_knob = 2;
// Groups of at most this many blocks of the reduction are offered for any size of L2.
constexpr int64_t few_blocks = 16;
// The share of its work that a tile may waste if its size suits the registers.
constexpr double most_waste = 0.2;

/// Returns tile sizes along a short axis of one operand of a product. Usually a tile may waste a
/// tenth of the work, which for 7 elements allows only the sizes 1 and 7. A tile may waste a fifth
/// if the registers can hold two vectors of sums for each element of the tile. Little of this is
/// lost, because a partial last tile has code of its own: with size 4, 7 elements become a tile of
/// 4 and a tile of 3.
std::vector<int64_t> sizes_along_short(int64_t extent, const Core& core) {
  std::vector<int64_t> sizes = tile_sizes(extent, most_accumulators);
  for (const int64_t t : tile_sizes(extent, (core.vector_registers - 2) / 2, most_waste))
    if (std::find(sizes.begin(), sizes.end(), t) == sizes.end()) sizes.push_back(t);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

/// Returns sizes of blocks of an axis, from `least` to `most`: the divisors of the extent that are
/// multiples of 4, or all its divisors if the extent is below 16. If there are no such divisors,
/// the sizes are `least`, 2 * `least`, 4 * `least` and so on. The extent itself is the last size if
/// it is at most `most`.
std::vector<int64_t> block_sizes(int64_t extent, int64_t least, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t b = least; b <= std::min(extent, most); ++b)
    if (extent % b == 0 && (b % 4 == 0 || b == extent || extent < 16)) sizes.push_back(b);
  if (sizes.empty())
    for (int64_t b = least; b <= std::min(extent, most); b *= 2) sizes.push_back(b);
  if (extent <= most && (sizes.empty() || sizes.back() != extent)) sizes.push_back(extent);
  return sizes;
}

/// Returns the number of comparisons of indices in the stage that use the axis, but at most 2. Most
/// of these comparisons are guards of a padding. Each of them makes separate loops for the tiles at
/// one border.
int64_t borders_along(const Stage& stage, const std::string& axis) {
  int64_t borders = 0;
  dsl::for_each(stage.body, [&](const Expr& e) {
    const dsl::Binary* comparison = e.as<dsl::Binary>();
    const bool compares = comparison && comparison->a.type() == Int64 && e.type() == Bool;
    borders += compares && dsl::uses_var(e, axis) ? 1 : 0;
  });
  return std::min<int64_t>(borders, 2);
}

/// True if tiles along the vector axis can have dot products of `depth` neighbours. The target must
/// have the instruction, the factor along the vector axis must be packed, and `depth` must divide
/// the extent of the main reduction.
bool has_dot_products(const ComputePlan& plan, const StagePlan& stage_plan, const Stage& stage,
                      const VectorAxis& vector, int64_t depth) {
  if (stage.combine != dsl::Combine::Sum || stage_plan.main_reduction.empty()) return false;
  const Expr product = unpadded(stage.body);  // loops within the image have no guard
  const auto factors = dot_factors(product, vector.axis, stage_plan.main_reduction);
  if (!factors) return false;
  const DotInstruction* found = find_dot_instruction(plan.target, *factors, stage.type, depth);
  // Floats can be computed by multiply-adds of vectors instead, which may be faster.
  const bool pays = found && (!is_float(stage.type) || found->speed(plan.target.machine.core) > 1);
  return pays && is_packed_along(plan.prologue.nest(), vector, factors->own->tensor) &&
         extent_of(stage, stage_plan.main_reduction) % depth == 0;
}

/// True if the stage reads a tensor that is larger than L2 and uses each of its elements once. An
/// example is the matrix of a matrix-vector product.
bool streams_operand(const ComputePlan& plan, const Stage& stage) {
  const auto moves_along = [](const dsl::Read& read, const std::vector<Axis>& axes) {
    return std::all_of(axes.begin(), axes.end(), [&](const Axis& axis) {
      return axis.extent == 1 || is_along(read, axis.name);
    });
  };
  bool streams = false;
  for_each_read(stage.body, [&](const dsl::Read& read) {
    streams |= moves_along(read, stage.axes) && moves_along(read, stage.reduction) &&
               exceeds_l2(plan, read);
  });
  return streams;
}

// Tolerance for CpuTileStage::statements(), whose estimate may be too high if tiles do not divide
// an extent. Measured with eight padded convolutions for AVX2 and AVX-512: with this tolerance, 52
// of 8,087 legal samples are rejected, and half of the samples that are not rejected are legal.
// With an estimate without the statements at borders only a third of them was legal.
constexpr double tolerance_of_statements = 0.1;

// Without dot products, products of integers take at least twice as long. With this weight most
// samples have dot products, even if a rough prediction draws only few samples.
constexpr int64_t weight_of_dots = 7;

class CpuTileStage : public Configured<CpuTile> {
 public:
  CpuTileStage(const ComputePlan& compute, const StagePlan& plan) : Configured(compute, plan) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < plan_.vector_axes.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    add_knob("vector", axes, &CpuTile::vector);
    add_knob("vectors", {1, 2, 3, 4, 6, 8}, &CpuTile::vectors);
    for (size_t i = 0; i < plan_.tile_axes.size(); ++i)
      add_knob("tile." + plan_.tile_axes[i], sizes_along(plan_.tile_axes[i]),
               [i](CpuTile& config) -> int64_t& { return config.tiles[i]; });
    for (const std::string& axis : plan_.tile_axes) borders_.push_back(borders_along(stage_, axis));
    const std::vector<int64_t> sizes = fused_sizes();
    has_fused_knob_ = sizes.size() > 1;
    if (has_fused_knob_) add_knob("tile." + join(plan_.fused_axes, "*"), sizes, &CpuTile::fused);
    add_reduction_knobs();
    add_knob("outer_order", {0, 1, 2}, &CpuTile::outer_order);
    add_knob("tasks", {1, 2, 3, 4}, &CpuTile::tasks);
    add_knob("layout.in", {0, 1, 2}, &CpuTile::layout_in);
    add_knob("layout.out", {0, 1, 2}, &CpuTile::layout_out);
    if (hosts_stages()) add_optional_knob("strip", {1, 2, 4, 8}, &CpuTile::strip);
    if (streams_weights()) add_optional_knob("prefetch", {0, 1}, &CpuTile::prefetch);
    add_dot_knob();
  }

 private:
  /// True if other stages may be computed in the loops of this stage.
  bool hosts_stages() const {
    return std::any_of(compute_.stages.begin(), compute_.stages.end(),
                       [&](const StagePlan& stage) { return stage.owner == plan_.name; });
  }

  /// True if some weights are read from main memory. The first tile that reads a part of them would
  /// then wait for memory. L3 delivers weights as fast as they are read, so prefetching from L3
  /// gains nothing.
  bool streams_weights() const {
    return compute_.state == dsl::CacheState::NetworkMemory &&
           std::any_of(plan_.vector_axes.begin(), plan_.vector_axes.end(),
                       [&](const VectorAxis& v) {
                         return !streamed_weights(compute_, stage_, v.axis).empty();
                       });
  }

  std::vector<int64_t> sizes_along(const std::string& axis) const {
    const Core& core = compute_.target.machine.core;
    const int64_t extent = extent_of(stage_, axis);
    const bool reuses = contains(plan_.product.rows, axis) || contains(plan_.product.columns, axis);
    return reuses && extent < core.vector_registers ? sizes_along_short(extent, core)
                                                    : tile_sizes(extent, most_accumulators);
  }

  /// Returns sizes of tiles of the fused axes: 0 for no fusing, and for each number of vectors the
  /// longest tile that fits the registers. Such a tile leaves registers for the vectors of one
  /// operand and for one element of the other. For example, with 16 registers, 6 * 2 of them hold
  /// sums for two vectors, and 4 * 3 for three vectors. Divisors and multiples of the innermost
  /// extent are left out, since tiles of the separate axes have the same elements.
  std::vector<int64_t> fused_sizes() const {
    if (plan_.fused_axes.empty()) return {};
    const int64_t registers = compute_.target.machine.core.vector_registers;
    const int64_t innermost = extent_of(stage_, plan_.fused_axes.back());
    const std::vector<int64_t> all =
        tile_sizes(points_of(stage_, plan_.fused_axes), most_accumulators, most_waste);
    std::vector<int64_t> sizes = {0};
    for (const int64_t vectors : {8, 6, 4, 3, 2, 1}) {
      const int64_t tile = std::min((registers - 1 - vectors) / vectors, most_accumulators);
      const bool offered = std::find(all.begin(), all.end(), tile) != all.end();
      if (offered && tile >= least_fused && innermost % tile != 0 && tile % innermost != 0)
        sizes.push_back(tile);
    }
    return sizes;
  }

  void add_reduction_knobs() {
    if (!plan_.main_reduction.empty()) {
      const int64_t extent = extent_of(stage_, plan_.main_reduction);
      add_knob("block", block_sizes(extent, std::min<int64_t>(4, extent), 512), &CpuTile::block);
      add_knob("unroll", {1, 2, 4, 8}, &CpuTile::unroll);
      add_knob("kblock", group_sizes(), &CpuTile::kblock);
    }
    if (stage_.reduction.size() <= 1) return;
    add_knob("taps", {0, 1, 2}, &CpuTile::window_axes);
    add_knob("reduction_order", {0, 1, 2}, &CpuTile::reduction_order);
  }

  void add_dot_knob() {
    std::vector<int64_t> depths = {1};
    for (int64_t depth = 2; depth <= most_dot_depth; depth *= 2) {
      const size_t known = dots_.size();
      for (size_t i = 0; i < plan_.vector_axes.size(); ++i)
        if (has_dot_products(compute_, plan_, stage_, plan_.vector_axes[i], depth))
          dots_.emplace(static_cast<int64_t>(i), depth);
      if (dots_.size() > known) depths.push_back(depth);
    }
    if (!dots_.empty()) add_optional_knob("dot", depths, &CpuTile::dot, weight_of_dots);
  }

  /// Returns the values of the knob `kblock`, the number of blocks in a group. They are 0 for no
  /// groups, a few blocks, and more blocks as long as the weights of a group stay in L2. If the
  /// result has another type than the sum, 0 is the only value: between groups, partial sums are
  /// stored in the result's array, and an array of another type cannot hold them. A group of one
  /// block is offered only if an operand is streamed: with block=4, four whole rows of that operand
  /// are then read side by side.
  std::vector<int64_t> group_sizes() const {
    if (stores_another_type(compute_, plan_.name)) return {0};
    const int64_t extent = extent_of(stage_, plan_.main_reduction);
    const int64_t least = std::min<int64_t>(4, extent);
    std::vector<int64_t> sizes = {0};
    if (streams_operand(compute_, stage_)) sizes.push_back(1);
    for (int64_t n = 2; n <= few_blocks || (n * least < extent && is_panel(n * least, 1)); n *= 2)
      sizes.push_back(n);
    return sizes;
  }

  /// True if the weights of a tile of `vectors` vectors, for `reduced` terms of the main reduction,
  /// fit half of L2. The other half is for those elements of the other operand that are read at the
  /// same time (Goto and van de Geijn, TOMS 34(3), 2008).
  bool is_panel(int64_t reduced, int64_t vectors) const {
    const int64_t bytes = reduced * unrolled_window(2) * vectors *
                          vector_lanes(compute_.target, stage_) * size_bytes(stage_.type);
    return 2 * bytes <= compute_.target.machine.l2_bytes();
  }

  void complete(CpuTile& config) const override {
    config.axis = &plan_.vector_axes[static_cast<size_t>(config.vector)];
    config.lanes = vector_lanes(compute_.target, stage_);
    config.accumulators = config.vectors;
    for (size_t i = 0; i < plan_.tile_axes.size(); ++i)
      if (plan_.tile_axes[i] != config.axis->axis) config.accumulators *= config.tiles[i];
    config.accumulators *= std::max<int64_t>(config.fused, 1);
    config.unrolled = unrolled_window(config.window_axes) * config.unroll;
  }

  /// Returns the number of copies of the accumulation that unrolling window axes makes. `choice` is
  /// a value of CpuTile::window_axes.
  int64_t unrolled_window(int64_t choice) const {
    int64_t taps = 1;
    for (size_t i = stage_.reduction.size(); i > 0 && choice > 0; --i) {
      const Axis& axis = stage_.reduction[i - 1];
      if (axis.name == plan_.main_reduction) continue;
      taps *= axis.extent;
      if (choice == 1) break;
    }
    return taps;
  }

  /// The head has the knobs for the vector axis, the number of vectors, and the tile. Only one in a
  /// hundred of their combinations fits the registers.
  size_t knobs_of_head() const override {
    return first_tile_knob + plan_.tile_axes.size() + (has_fused_knob_ ? 1 : 0);
  }

  bool may_begin_with(std::span<const int64_t> values) const override {
    if (values.size() < first_tile_knob) return true;
    const std::string& vector_axis = plan_.vector_axes[static_cast<size_t>(values[0])].axis;
    const size_t fused_knob = first_tile_knob + plan_.tile_axes.size();
    int64_t accumulators = values[1];
    for (size_t k = first_tile_knob; k < values.size(); ++k)
      if (k == fused_knob)
        accumulators *= std::max<int64_t>(values[k], 1);
      else if (plan_.tile_axes[k - first_tile_knob] != vector_axis)
        accumulators *= values[k];
    return accumulators <= most_registers();
  }

  int64_t most_registers() const { return compute_.target.machine.core.vector_registers - 2; }

  /// True if the tile fits the registers, its unrolled statements are not too many, and no two
  /// knobs contradict each other.
  bool fits(const CpuTile& config) const override {
    if (config.fused > 0 && !leaves_to_fused(config)) return false;
    const int64_t extent = extent_of(stage_, config.axis->axis);
    if (config.vectors > 1 && (config.vectors - 1) * config.lanes >= extent) return false;
    if (config.accumulators > most_registers()) return false;
    if (config.block % config.dot != 0 || config.unroll > config.block / config.dot) return false;
    if (config.prefetch == 1 && !can_prefetch(config)) return false;
    if (config.dot > 1 && !dots_.contains({config.vector, config.dot})) return false;
    if (statements(config) > (1 + tolerance_of_statements) * most_statements_searched) return false;
    if (config.kblock == 0) return true;
    const int64_t group = config.kblock * config.block;
    if (config.kblock > few_blocks && !is_panel(group, config.vectors)) return false;
    return group < extent_of(stage_, plan_.main_reduction);
  }

  /// Returns the approximate number of statements of all copies of a tile: the
  /// multiply-accumulates, and the statements that initialise and write the accumulators. Tiles at
  /// a border have separate loops, and so have taps that lie partly in the padding. For example,
  /// with 3 taps and 4 rows there are 3 tiles: one is a loop of 4 rows, and in the other two the
  /// taps are loops of 3 and of 4 rows. These are 5 loops.
  double statements(const CpuTile& config) const {
    double tiles = 1, sums = 1;
    for (size_t i = 0; i < plan_.tile_axes.size(); ++i) {
      if (config.tiles[i] == 1 || plan_.tile_axes[i] == config.axis->axis) continue;
      const int64_t along = ceil_div(extent_of(stage_, plan_.tile_axes[i]), config.tiles[i]);
      const auto own = static_cast<double>(std::min(along, 1 + borders_[i]));
      const auto rows = static_cast<double>(config.tiles[i]);
      // If taps are unrolled, the tile at a border has one loop, which leaves out the rows in the
      // padding.
      const double at_borders =
          config.window_axes > 0 ? 1 - own : static_cast<double>(borders_[i]) * (rows - 1);
      tiles *= own;
      sums *= own + at_borders / rows;
    }
    return static_cast<double>(config.accumulators) *
           (2 * tiles + static_cast<double>(config.unrolled) * sums);
  }

  /// True if there is a next tile along the vector axis, and weights are read along this axis.
  bool can_prefetch(const CpuTile& config) const {
    return config.vectors * config.lanes < extent_of(stage_, config.axis->axis) &&
           !streamed_weights(compute_, stage_, config.axis->axis).empty();
  }

  /// True if no fused axis is also the vector axis or has a separate tile.
  bool leaves_to_fused(const CpuTile& config) const {
    return std::all_of(
        plan_.fused_axes.begin(), plan_.fused_axes.end(), [&](const std::string& axis) {
          const auto at = std::find(plan_.tile_axes.begin(), plan_.tile_axes.end(), axis);
          return axis != config.axis->axis &&
                 config.tiles[static_cast<size_t>(at - plan_.tile_axes.begin())] == 1;
        });
  }

  /// Returns a prior that prefers a full register tile and simple values of the other knobs.
  double prior(const CpuTile& config, bool /*placed*/) const override {
    const auto tile = static_cast<double>(std::min(config.accumulators, most_accumulators));
    const int64_t plain = -10 * config.vector - config.unroll - 4 * (config.kblock > 0) +
                          2 * config.tasks + 4 * (config.layout_in == 1) +
                          4 * (config.layout_out == 1) - 8 * config.outer_order -
                          4 * config.reduction_order + 4 * config.prefetch + 8 * (config.dot - 1);
    return tile + static_cast<double>(plain);
  }

  Site append_steps(const CpuTile& config, const Site* inside, Construction& c) const override {
    compute_at(c, plan_.name, inside);
    append_tile_steps(c, plan_, config, !inside);
    return inside ? Site{} : site_of(c, plan_.name);
  }

  bool has_fused_knob_ = false;
  std::vector<int64_t> borders_;  ///< for each tile axis, the result of borders_along()
  std::set<std::pair<int64_t, int64_t>> dots_;  ///< pairs of the index of a vector axis and a
                                                ///< possible depth of dot products
};

}  // namespace

std::unique_ptr<const StageStrategy> cpu_tile(const ComputePlan& plan, const StagePlan& stage) {
  if (plan.target.is_gpu() || !stage.reduces || stage.scans || stage.prefers_lanes ||
      stage.selects())
    return nullptr;
  return std::make_unique<CpuTileStage>(plan, stage);
}

}  // namespace tw::schedules
