// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configuration of a reduction by a register tile on a CPU, whose registers are vectors
// (cpu_tile.cpp) or tiles of the core (cpu_core_tile.cpp); its layouts (cpu_tile_layouts.cpp) and
// its steps (cpu_tile_steps.cpp). Plain values and free functions; thread-safe.

#include <array>
#include <cstdint>
#include <string>

#include "schedules/program/tensor_tiles.h"
#include "schedules/space/construction.h"

namespace tw::schedules {

struct CpuTile {
  int64_t vector = 0;   ///< the vector axis, of those that the plan offers
  int64_t vectors = 1;  ///< of the tile, along the vector axis
  std::array<int64_t, most_tile_axes> tiles = {1, 1, 1, 1};  ///< along the plan's tile axes
  int64_t fused = 0;   ///< of the tile, along the fused axes as one loop; 0: they stay apart
  int64_t block = 1;   ///< of the main reduction; innermost
  int64_t unroll = 1;  ///< of a block
  int64_t kblock = 0;  ///< blocks that go around the loops in which their data is reused; 0: none
  int64_t window_axes = 0;  ///< unrolled axes of the reduction's window: none, the innermost, all
  int64_t reduction_order = 0;  ///< windows inside of blocks, outside, inside of what is in a block
  int64_t outer_order = 0;      ///< place of the loop over the tile's vectors: see append_steps
  int64_t tasks = 1;            ///< outermost loops that are parallel
  int64_t strip = 1;            ///< iterations of the innermost parallel loop that share a task
  int64_t prefetch = 0;         ///< 1: the weights of the next tile of vectors are prefetched
  int64_t layout_in = 0;        ///< of inputs: as declared, blocked, innermost
  int64_t layout_out = 0;       ///< of the result and what is read like it
  /// Neighbours along the main reduction that each lane multiplies and sums at once
  /// (dot_products.h); 1: no dot products.
  int64_t dot = 1;
  /// The tile of the core (core_tiles.h) that is one register of the tile; null: a vector is.
  const TensorTile* core = nullptr;
  int64_t row = 0;        ///< tiles of a core: the plan's tile axis that its rows lie along
  int64_t rows = 1;       ///< of a core's tile
  int64_t row_tiles = 1;  ///< tiles of a core, along its rows
  int64_t groups = 1;     ///< of a core's tile, along the main reduction
  // Derived from these:
  const VectorAxis* axis = nullptr;
  int64_t lanes = 1;         ///< elements of a vector register
  int64_t accumulators = 1;  ///< vector registers that hold the tile
  int64_t unrolled = 1;      ///< multiply-accumulates of an accumulator in the unrolled body

  /// Neighbours along the main reduction that one instruction sums.
  int64_t depth() const { return dot * groups; }
};

/// The layouts that a tile begins with: arguments and results follow its loops. The vector axis
/// comes innermost, the blocked reduction axis around it, and the other dimensions outside in the
/// order of the loops. `width`: elements of a vector. A stage that is computed inside of another
/// one (not `is_root`) chooses those of prepared operands, and of inputs that it alone reads.
void choose_layouts(Construction& c, const StagePlan& plan, const CpuTile& config, int64_t width,
                    bool is_root);

/// Appends the steps of the configuration. A stage that is computed inside of another one (not
/// `is_root`) has no tasks of its own.
void append_tile_steps(Construction& c, const StagePlan& plan, const CpuTile& config, bool is_root);

/// The constant larger than L2 that the stage reads along the vector axis, each element for several
/// results, and whose layout follows the tile; empty if there is none.
std::string streamed_weights(const ComputePlan& plan, const dsl::Stage& stage,
                             const std::string& vector_axis);
/// True if the tensor of the read is larger than L2.
bool exceeds_l2(const ComputePlan& plan, const dsl::Read& read);
/// True if an index of the read is the axis itself.
bool is_along(const dsl::Read& read, const std::string& axis);

}  // namespace tw::schedules
