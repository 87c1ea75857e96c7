// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensor tiles: products of small matrices. The 32 threads of a warp compute a tile together by an
// instruction of a GPU's tensor cores (PTX: mma.sync), or the 128 threads of a warpgroup do
// (wgmma). A tile may also be computed by one thread of a CPU (core_tiles.h). A tile gives the same
// result as its loops, and targets without the instruction run the loops. In a warp's tile of 16
// rows and 8 columns each lane sums four elements:
//
//   thread ... thread r in 0..8                  # the innermost two: lane = 4 r + c
//     thread c in 0..4
//       tensor h in 0..2 mma_m16n8k8_3xtf32
//         tensor e in 0..2
//           tensor k in 0..8
//             acc[..., h, e] += a[..., h, r, k] * b[..., c, e, k]
//
// The row of an element is 8 h + r and its column 2 c + e, so lane 5 (r = 1, c = 1) sums the rows 1
// and 9 of the columns 2 and 3. One factor depends on the row and the other on the column; either
// may come first in the product. Both are read from memory that all threads see.
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
// The instruction reads the factors from shared memory, in one of two layouts. Both consist of
// lines, which follow each other. A line is a piece of shared memory that is as long as the
// buffer's swizzle (program.h).
//   K-major: a line has neighbouring terms of one row of `a`, or of one column of `b`. A line of
//     128 bytes has 64 terms of bf16.
//   MN-major, for 16-bit types only: a line belongs to one term k. It has the elements for this
//     term in 64, 32 or 16 neighbouring rows of `a`, or columns of `b`. 64 elements of bf16 take
//     128 bytes.
//
// In MN-major, more than 64 columns are stored as groups of 64. The loop j is then two loops, i
// over groups and j in 0..8, and b is stored group by group:
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

/// One row of the table tensor_tiles(). Factors are read as elements of the type `operand` and
/// widened to the type `accumulator`, in which they are summed.
struct TensorTile {
  std::string_view name;
  DType operand, accumulator;
  /// Number of terms of a sum. This is the extent of the loop over k; for a core tile it includes
  /// the terms of all groups.
  int64_t depth;
  int instructions;        ///< number of instructions that compute one tile
  int least_architecture;  ///< first GPU architecture that has the tile: 80 for sm_80
  double input_error;  ///< relative error by which the tile rounds a factor; 0 if it rounds none
  /// true for wgmma; only variant "a" of the GPU architecture `least_architecture` (sm_90a) has
  /// such a tile
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
/// Largest number of neighbouring rows or columns that an MN-major factor keeps contiguous.
inline constexpr int64_t most_mn_neighbours = 64;
/// The largest input error of a tile that counts as exact for f32: an error in the last bits. The
/// tile mma_m16n8k8_3xtf32 (2^-21) is exact, and mma_m16n8k8_tf32 (2^-11) is not.
inline constexpr double exact_input_error = 0x1p-20;

std::span<const TensorTile> tensor_tiles();
/// Returns the tile of that name; null if there is none.
const TensorTile* find_tensor_tile(std::string_view name);

/// True if a factor of the tile may have the type. A core tile of i8 also takes u8.
bool takes(const TensorTile& tile, DType factor);

/// Returns the number of multiply-adds of the tile's product per cycle and multiprocessor. The time
/// of a tile is that of all its instructions: mma_m16n8k8_3xtf32 takes three. The rate of tensor
/// cores halves with each doubling of the operand's size. Requires: a tile of a GPU.
double multiply_adds(const TensorTile& tile, const Gpu& gpu);

/// True if a GPU of the architecture has the tile's instruction. `is_variant_a` is true for sm_90a.
bool has_tile(const TensorTile& tile, int architecture, bool is_variant_a);
/// True if the warpgroup instruction exists with that number of columns.
bool has_columns(const TensorTile& tile, int64_t columns);
/// True if the instruction can read a factor that is MN-major with that number of neighbours.
bool has_mn_major(const TensorTile& tile, int64_t neighbours);

/// The loops of a tile in a program, its sum, and the reads of its factors. The pointers point into
/// the program.
struct TensorNest {
  const TensorTile* tile;
  const Loop *part, *column, *depth;  ///< the loops h, e and k above
  const Assign* sum;
  const dsl::Read *by_row, *by_column;  ///< the factors by row and by column
  std::string lane_row, lane_column;    ///< variables of the thread loops r and c
  const Loop* columns = nullptr;        ///< the loop j; null for a tile of a warp
  std::string warp;                     ///< variable of w; empty for a tile of a warp
  const Loop* column_groups = nullptr;  ///< the loop i; null if j is one loop
};
/// Rows and columns of the tile.
int64_t rows_of(const TensorNest& nest);
int64_t columns_of(const TensorNest& nest);

/// Analyses a loop that names a tile. Invalid if the nested loops, the sum in them or the nest of
/// threads do not have the form of the tile. Requires: the loop is in the body of the nest.
Result<TensorNest> tensor_nest(const Loop& loop, const ThreadNest& threads);

/// Returns the number of elements of one row (or column) of a factor that a lane holds for an
/// instruction. They always have 8 bytes along k: 2 of f32, 4 of bf16, 8 of i8.
int64_t lane_elements(const TensorTile& tile);
/// row_indices() returns the indices of the i-th element that a lane reads of the factor that
/// depends on the row. A lane reads two rows of this factor, and `part` (the loop h above) selects
/// one of them. column_indices() does the same for the factor that depends on the column. The
/// instruction would give a lane elements that are not neighbours along k. A sum may take its terms
/// in any order, so a lane reads neighbours instead: if a lane has 4 elements, the lanes with the
/// thread index c read the terms 4 c to 4 c + 3.
std::vector<Expr> row_indices(const TensorNest& nest, const Expr& part, const Expr& i);
std::vector<Expr> column_indices(const TensorNest& nest, const Expr& i);

/// first_of_rows() and first_of_columns() return the indices of the first element that a
/// warpgroup's tile reads of a factor: the first term of the tile's first row, or of its first
/// column.
std::vector<Expr> first_of_rows(const TensorNest& nest);
std::vector<Expr> first_of_columns(const TensorNest& nest);
/// Returns the indices of a thread's first accumulator in the tile.
std::vector<Expr> first_of_sums(const TensorNest& nest);

/// The layout of a factor of a warpgroup's tile in shared memory: K-major unless `is_mn_major`.
struct FactorLayout {
  bool is_mn_major = false;
  /// if MN-major: number of bytes from one group of 64 columns to the next; 0 if there is only one
  /// group
  int64_t group_bytes = 0;
};
FactorLayout layout_of_rows(const TensorNest& nest, const Buffer& buffer);
FactorLayout layout_of_columns(const TensorNest& nest, const Buffer& buffer);

/// Checks the tensor tiles of the phase. Each tile must have all its loops. Its factors must not be
/// private to a thread, and the threads that compute the tile must not write them. All lanes of a
/// warp must compute the tile together, and the target must have the instruction. Fails with
/// ErrorCode::Invalid.
Status check_tensor_tiles(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules
