// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configuration of a reduction by a register tile on a CPU. The registers are vectors
// (cpu_tile.cpp) or tiles of the core (cpu_core_tile.cpp). cpu_tile_layouts.cpp chooses layouts for
// a configuration, and cpu_tile_steps.cpp appends its steps. Plain values and free functions;
// thread-safe.

#include <array>
#include <cstdint>
#include <string>

#include "schedules/program/tensor_tiles.h"
#include "schedules/space/construction.h"

namespace tw::schedules {

struct CpuTile {
  int64_t vector = 0;   ///< index of the vector axis among those of the plan
  int64_t vectors = 1;  ///< number of vectors of the tile along the vector axis
  /// sizes of the tile along the plan's tile axes
  std::array<int64_t, most_tile_axes> tiles = {1, 1, 1, 1};
  /// Size of the tile along the fused axes, which are then one loop; 0 if they are not fused.
  int64_t fused = 0;
  int64_t block = 1;   ///< size of blocks of the main reduction; the loop in a block is innermost
  int64_t unroll = 1;  ///< unroll factor of the loop in a block
  /// Number of blocks in a group of the main reduction. The loop over groups is outside of the
  /// loops that reuse the data of a group. 0: there are no groups.
  int64_t kblock = 0;
  /// unrolled axes of the reduction's window: 0 none, 1 the innermost, 2 all
  int64_t window_axes = 0;
  /// place of the loops over the window: 0 inside of blocks, 1 outside of blocks, 2 inside of the
  /// loop in a block
  int64_t reduction_order = 0;
  /// Place among the outer loops of the loop over tiles along the vector axis: 0 first, or second
  /// if the first loop is probably a batch; 1 last; 2 last but one.
  int64_t outer_order = 0;
  int64_t tasks = 1;      ///< number of outermost loops that are parallel
  int64_t strip = 1;      ///< number of iterations of the innermost parallel loop in one task
  int64_t prefetch = 0;   ///< 1: the weights of the next tile of vectors are prefetched
  int64_t layout_in = 0;  ///< layout of inputs: 0 as declared, 1 blocked, 2 innermost
  /// layout of the result and of tensors that are read like it; values as of layout_in
  int64_t layout_out = 0;
  /// Number of neighbours along the main reduction that each lane multiplies and adds in one dot
  /// product (dot_products.h); 1 without dot products.
  int64_t dot = 1;
  /// The core tile (core_tiles.h) that a register holds; null if registers hold vectors.
  const TensorTile* core = nullptr;
  int64_t row = 0;        ///< core tiles: index of the tile axis along which the rows lie
  int64_t rows = 1;       ///< core tiles: number of rows of one
  int64_t row_tiles = 1;  ///< core tiles: number of tiles along the rows
  int64_t groups = 1;  ///< core tiles: number of groups of terms of one, along the main reduction
  // Computed from the members above:
  const VectorAxis* axis = nullptr;
  int64_t lanes = 1;         ///< elements of a vector register
  int64_t accumulators = 1;  ///< vector registers that hold the tile
  int64_t unrolled = 1;      ///< multiply-accumulates of an accumulator in the unrolled body

  /// Number of neighbours along the main reduction that one instruction sums.
  int64_t depth() const { return dot * groups; }
};

/// Chooses layouts of arguments and results that follow the loops of the tile. The vector axis is
/// innermost, the blocked reduction axis around it, and the other dimensions outside in the order
/// of the loops. `width` is the number of elements of a vector. A stage that is computed inside of
/// another stage (not `is_root`) chooses only the layouts of prepared operands, and of inputs that
/// no other stage reads.
void choose_layouts(Construction& c, const StagePlan& plan, const CpuTile& config, int64_t width,
                    bool is_root);

/// Appends the steps of the configuration. A stage that is computed inside of another stage (not
/// `is_root`) has no tasks.
void append_tile_steps(Construction& c, const StagePlan& plan, const CpuTile& config, bool is_root);

/// The constant that is larger than L2, that the stage reads along the vector axis, each element
/// for several results, and whose layout follows the tile. Empty if there is none.
std::string streamed_weights(const ComputePlan& plan, const dsl::Stage& stage,
                             const std::string& vector_axis);
/// True if the tensor of the read is larger than L2.
bool exceeds_l2(const ComputePlan& plan, const dsl::Read& read);
/// True if an index of the read is the axis itself.
bool is_along(const dsl::Read& read, const std::string& axis);

}  // namespace tw::schedules
