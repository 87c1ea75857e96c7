// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensor tiles: products of small matrices. The 32 threads of a warp compute a tile together by an
// instruction of a GPU's tensor cores (PTX: mma.sync), or the 128 threads of a warpgroup do
// (wgmma). A tile may also be computed by one thread of a CPU (core_tiles.h). The meaning of a tile
// is that of its loops, which targets without the instruction run. In a warp's tile of 16 rows and
// 8 columns each lane sums four elements:
//
//   thread ... thread r in 0..8                  # the innermost two: lane = 4 r + c
//     thread c in 0..4
//       tensor h in 0..2 mma_m16n8k8_3xtf32
//         tensor e in 0..2
//           tensor k in 0..8
//             acc[..., h, e] += a[..., h, r, k] * b[..., c, e, k]
//
// One factor depends on the row (h, r) and the other on the column (c, e); either may come first in
// the product. Both are read from memory that all threads see.
//
// A warpgroup's tile has 64 rows, 16 for each warp w, and 8 columns for each iteration of a loop j:
//
//   thread w in 0..4
//     thread r in 0..8
//       thread c in 0..4
//         tensor h in 0..2 wgmma_m64k16_bf16
//           tensor j in 0..16
//             tensor e in 0..2
//               tensor k in 0..16
//                 acc[..., h, j, e] += a[..., w, h, r, ..., k] * b[..., j, c, e, ..., k]
//
// The instruction reads the factors from shared memory, in one of two layouts. K-major: the rows of
// a block of the reduction lie one after the other, each as long as the buffer's swizzle
// (program.h). MN-major, for 16-bit types: the terms of the block lie one after the other, and each
// term has 64 neighbouring rows or columns, swizzled by these 128 bytes, or all columns if there
// are 32 or 16. If j is two loops, of which the inner has 8 iterations, there are several groups of
// 64 columns:
//
//   acc[..., h, i, j, e] += ... * b[..., i, k, j, c, e]
//
// Pure functions and plain values; thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "schedules/program/program.h"
#include "schedules/program/threads.h"

namespace tw::schedules {

/// One row of the table. Factors have the type `operand` and are widened; sums have the type
/// `accumulator`.
struct TensorTile {
  std::string_view name;
  DType operand, accumulator;
  /// Number of terms of a sum. This is the extent of the loop over k; for a core tile it includes
  /// the terms of all groups.
  int64_t depth;
  int instructions;        ///< number of instructions for one tile
  int least_architecture;  ///< first GPU architecture that has the tile: 80 for sm_80
  double input_error;      ///< relative error of rounding a factor
  /// true for wgmma, which only that architecture has, in its variant "a"
  bool is_of_warpgroup = false;
  /// CPU features that the instruction needs; empty for tiles of GPUs.
  std::span<const std::string_view> features = {};

  bool is_of_core() const { return !features.empty(); }
  bool is_of_warp() const { return !is_of_core() && !is_of_warpgroup; }
};

inline constexpr int64_t tile_rows = 16, tile_columns = 8;
inline constexpr int64_t lane_rows = 8, lane_columns = 4;  ///< arrangement of a warp's lanes
/// Extent of the loops h and e: the number of rows, and of columns, that one lane sums in a tile.
inline constexpr int64_t tile_part = 2;
/// Sizes of a warpgroup's tile. Each of its warps has 16 rows, as in a warp's tile.
inline constexpr int64_t warpgroup_warps = 4, warpgroup_rows = 64, most_warpgroup_columns = 256;
/// Largest number of contiguous neighbours in an MN-major factor.
inline constexpr int64_t most_mn_neighbours = 64;
/// The largest input error that counts as exact for f32: an error in its last bits.
inline constexpr double exact_input_error = 0x1p-20;

std::span<const TensorTile> tensor_tiles();
/// The tile of that name; null if there is none.
const TensorTile* find_tensor_tile(std::string_view name);

/// True if a factor may have the type.
bool takes(const TensorTile& tile, DType factor);

/// Multiply-adds per cycle and multiprocessor of the products that the tile computes, counting all
/// its instructions. The rate of tensor cores halves with each doubling of the operand's size.
/// Requires: a tile of a GPU.
double multiply_adds(const TensorTile& tile, const Gpu& gpu);

/// True if a GPU of the architecture has the tile's instruction. `is_variant_a` is true for sm_90a.
bool has_tile(const TensorTile& tile, int architecture, bool is_variant_a);
/// True if the warpgroup instruction exists with that number of columns.
bool has_columns(const TensorTile& tile, int64_t columns);
/// True if the tile's factors may be MN-major with that number of contiguous neighbours.
bool has_mn_major(const TensorTile& tile, int64_t neighbours);

/// The loops of a tile in a program, and the reads of its factors. Points into the program.
struct TensorNest {
  const TensorTile* tile;
  const Loop *part, *column, *depth;  ///< h, e and k above
  const Assign* sum;
  const dsl::Read *by_row, *by_column;  ///< the factors by row and by column
  std::string lane_row, lane_column;    ///< the loops r and c
  const Loop* columns = nullptr;        ///< j in a warpgroup's tile
  std::string warp;                     ///< w in a warpgroup's tile
  const Loop* column_groups = nullptr;  ///< i in a warpgroup's tile, if j is two loops
};
/// Rows and columns of the tile.
int64_t rows_of(const TensorNest& nest);
int64_t columns_of(const TensorNest& nest);

/// Analyses a loop that names a tile. Invalid if the nested loops, the sum in them or the nest of
/// threads do not have the form of the tile. Requires: the loop is in the body of the nest.
Result<TensorNest> tensor_nest(const Loop& loop, const ThreadNest& threads);

/// Number of elements of a factor that one lane holds for an instruction: 8 bytes of neighbours
/// along k.
int64_t lane_elements(const TensorTile& tile);
/// Indices of a lane's element `i` of a factor: in the rows of `part` (0 or 1), or in the columns.
/// The hardware gives a lane elements at strides along k. A sum may take its terms in any order, so
/// a lane reads neighbours instead.
std::vector<Expr> row_indices(const TensorNest& nest, const Expr& part, const Expr& i);
std::vector<Expr> column_indices(const TensorNest& nest, const Expr& i);

/// Indices of the first element of a warpgroup's factor: its first row, or column, and first term.
std::vector<Expr> first_of_rows(const TensorNest& nest);
std::vector<Expr> first_of_columns(const TensorNest& nest);
/// Indices of a thread's first accumulator.
std::vector<Expr> first_of_sums(const TensorNest& nest);

/// The layout of a warpgroup's factor in its buffer.
struct FactorLayout {
  bool is_mn_major = false;
  /// if MN-major: bytes from one group of 64 to the next; 0 if there is one group
  int64_t group_bytes = 0;
};
FactorLayout layout_of_rows(const TensorNest& nest, const Buffer& buffer);
FactorLayout layout_of_columns(const TensorNest& nest, const Buffer& buffer);

/// Checks the tensor tiles of the phase. Each must be complete; its factors must not be private to
/// a thread, nor change while the tile is computed; all lanes of a warp must compute it together;
/// and the target must have the instruction. Fails with ErrorCode::Invalid.
Status check_tensor_tiles(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules
