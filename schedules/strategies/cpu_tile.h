// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configuration of a reduction by a register tile on a CPU (cpu_tile.cpp), which the choice of
// layouts reads too (cpu_tile_layouts.cpp). Plain values; thread-safe.

#include <array>
#include <cstdint>

#include "schedules/construction.h"

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
  // Derived from these:
  const VectorAxis* axis = nullptr;
  int64_t lanes = 1;         ///< elements of a vector register
  int64_t accumulators = 1;  ///< vector registers that hold the tile
  int64_t unrolled = 1;      ///< multiply-accumulates of an accumulator in the unrolled body
};

/// The layouts that a tile begins with: arguments and results follow its loops. The vector axis
/// comes innermost, the blocked reduction axis around it, and the other dimensions outside in the
/// order of the loops. `width`: elements of a vector. A stage that is computed inside of another
/// one (not `is_root`) chooses those of prepared operands, and of inputs that it alone reads.
void choose_layouts(Construction& c, const StagePlan& plan, const CpuTile& config, int64_t width,
                    bool is_root);

}  // namespace tw::schedules
