// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configuration of a reduction that a CPU computes by a register tile. The registers are
// vectors (cpu_tile.cpp) or core tiles (cpu_core_tile.cpp), i.e. tensor tiles of a CPU core.
// cpu_tile_layouts.cpp chooses layouts for a configuration, and cpu_tile_steps.cpp appends its
// steps.
//
// For example, take c[m=60, n=128] = sum(k=256) a[m, k] * b[k, n] with vectors of 8 floats along n,
// vectors=2, tile.m=6, block=64, unroll=4, kblock=2, outer_order=0 and tasks=1:
//
//   parallel n.0 in 0..8                   tiles of 16 columns: vectors=2
//     for k.0.0 in 0..2                    groups of kblock=2 blocks, around the loops that reuse b
//       for m.0 in 0..10                   tiles of 6 rows: tile.m=6
//         for k.0.1 in 0..2                blocks of block=64 terms
//           for k.1.0 in 0..16             the loop in a block
//             unroll k.1.1 in 0..4         unroll=4
//               unroll m.1 in 0..6         one register for each row and vector,
//                 unroll n.1.0 in 0..2     6 * 2 = 12 accumulators
//                   vector n.1.1 in 0..8
//
// Plain values and free functions; thread-safe.

#include <array>
#include <cstdint>
#include <string>

#include "schedules/program/tensor_tiles.h"
#include "schedules/space/construction.h"

namespace tw::schedules {

struct CpuTile {
  int64_t vector = 0;   ///< index of the vector axis in StagePlan::vector_axes
  int64_t vectors = 1;  ///< number of vectors of the tile along the vector axis
  /// Sizes of the tile along the axes of StagePlan::tile_axes, in their order.
  std::array<int64_t, most_tile_axes> tiles = {1, 1, 1, 1};
  /// Size of the tile along StagePlan::fused_axes, which are fused to one loop; 0 if they are
  /// separate loops. With fused=6, 7 x 7 pixels are one loop of 49 iterations: eight tiles of 6 and
  /// one of 1.
  int64_t fused = 0;
  int64_t block = 1;   ///< terms in a block of the main reduction; 256 terms are 4 blocks of 64
  int64_t unroll = 1;  ///< unroll factor of the loop in a block
  /// Number of blocks of the main reduction in a group; 0 if there are no groups. The loop over
  /// groups is outside of the loops that reuse the data of a group.
  int64_t kblock = 0;
  /// The knob "taps", which decides whose loops are unrolled among the reduction axes other than
  /// the main one. These axes are the window of a convolution.
  ///   0: none
  ///   1: the innermost axis
  ///   2: all axes, i.e. 9 taps for a window of 3 x 3
  int64_t window_axes = 0;
  /// The place of the loops over the window.
  ///   0: between the loop over blocks and the loop in a block
  ///   1: outside of the loop over blocks
  ///   2: inside of the loop in a block
  int64_t reduction_order = 0;
  /// The place, among the outer loops, of the loop over tiles along the vector axis.
  ///   0: first; second if the stage has more than three spatial axes, the first of which is
  ///      probably a batch
  ///   1: last
  ///   2: last but one
  int64_t outer_order = 0;
  int64_t tasks = 1;  ///< number of outermost loops that are parallel
  /// Number of iterations of the innermost parallel loop that are one task. With strip=4 and 10
  /// iterations there are three tasks. Producers may be computed once for each task.
  int64_t strip = 1;
  int64_t prefetch = 0;  ///< 1 if the weights of the next tile of vectors are prefetched
  /// The layout of inputs that are not constant and not read along the vector axis. For example,
  /// the input in[n, c, y, x] of a convolution has the main reduction c.
  ///   0: as declared (NCHW)
  ///   1: blocked (NCHW16c with block=16)
  ///   2: the main reduction innermost (NHWC)
  int64_t layout_in = 0;
  /// The layout of the result, and of arguments of the result's shape that the epilogue reads.
  ///   0: as declared if the vector axis is the last axis, else as 1
  ///   1: blocked by vectors (NCHW8c)
  ///   2: the vector axis innermost (NHWC)
  int64_t layout_out = 0;
  /// Number of neighbours along the main reduction whose products each lane adds in one dot product
  /// (dot_products.h); 1 if there are no dot products.
  int64_t dot = 1;
  /// The core tile (core_tiles.h) that a register holds; null if registers hold vectors. The
  /// members from here to `groups` are for core tiles only. With rows=16, row_tiles=2, vectors=2,
  /// lanes=16 and groups=16, the register tile has 2 x 2 core tiles: 32 rows and 32 columns, and 16
  /// groups of `dot` terms.
  const TensorTile* core = nullptr;
  int64_t row = 0;        ///< index, in StagePlan::tile_axes, of the axis of the rows of core tiles
  int64_t rows = 1;       ///< number of rows of a core tile
  int64_t row_tiles = 1;  ///< number of core tiles of the register tile along the axis of the rows
  int64_t groups = 1;     ///< number of groups of terms of a core tile, along the main reduction
  // Computed from the members above:
  const VectorAxis* axis = nullptr;
  int64_t lanes = 1;         ///< elements of a vector register, or columns of a core tile
  int64_t accumulators = 1;  ///< number of registers that hold sums: vectors, or core tiles
  int64_t unrolled = 1;  ///< number of multiply-accumulates for each accumulator in the unrolled
                         ///< body

  /// Returns the number of neighbours along the main reduction that one instruction adds, which is
  /// 4 * 16 = 64 for a core tile of i8.
  int64_t depth() const { return dot * groups; }
};

/// Sets the layouts of arguments and results so that they follow the loops of the tile. Weights
/// have the vector axis innermost, the block of the main reduction around it, and the other
/// dimensions outside of both, in the order of their declaration. For weights OIHW with the vector
/// axis O, vectors=2 of 8 elements and block=64 the layout is OIHW64i16o. `width` is the number of
/// elements of a vector. If the stage is computed inside of another stage (not `is_root`), the
/// function sets only the layouts of prepared operands, and of inputs that no other stage reads.
void choose_layouts(Construction& c, const StagePlan& plan, const CpuTile& config, int64_t width,
                    bool is_root);

/// Appends the steps of the configuration, including the layouts of choose_layouts(). A stage that
/// is computed inside of another stage (not `is_root`) gets no parallel loops.
void append_tile_steps(Construction& c, const StagePlan& plan, const CpuTile& config, bool is_root);

/// Returns the name of the weights for which prefetching is worthwhile. These are constants that
/// are larger than L2, that the stage reads along the vector axis, and each element of which is
/// used for several results. The problem must not ask for their layout. Empty if there are no such
/// weights.
std::string streamed_weights(const ComputePlan& plan, const dsl::Stage& stage,
                             const std::string& vector_axis);
/// True if the tensor of the read is larger than L2.
bool exceeds_l2(const ComputePlan& plan, const dsl::Read& read);
/// True if an index of the read is the axis itself.
bool is_along(const dsl::Read& read, const std::string& axis);

}  // namespace tw::schedules
