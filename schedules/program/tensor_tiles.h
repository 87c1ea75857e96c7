// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensor tiles: products of small matrices that the 32 threads of a warp compute together, by one
// instruction of a GPU's tensor cores (PTX: mma.sync), or the 128 of a warpgroup (wgmma). One
// thread of a CPU computes a tile alone (core_tiles.h). The meaning of a tile is that of its loops,
// and targets without the instruction run the loops: each lane of a warp sums its own four elements
// of 16 rows and 8 columns.
//
//   thread ... thread r in 0..8                  # the innermost two: lane = 4 r + c
//     thread c in 0..4
//       tensor h in 0..2 mma_m16n8k8_3xtf32
//         tensor e in 0..2
//           tensor k in 0..8
//             acc[..., h, e] += a[..., h, r, k] * b[..., c, e, k]
//
// The first factor depends on the row (h, r) and the second on the column (c, e), or the other way
// round; both are read from memory that all threads see.
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
// Its instruction reads the factors from shared memory, in one of two layouts. K-major: the rows of
// a block of the reduction lie one after the other, each as long as the buffer's swizzle
// (program.h). MN-major, for types of 16 bits: for each term of the block, term after term, there
// are 64 neighbouring rows or columns, swizzled by these 128 bytes, or all columns if there are 32
// or 16. If j is two loops, of which the inner has 8 iterations, there are several groups of 64
// columns:
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
  int64_t depth;  ///< terms of a sum: the extent of the loop over k; of a core's, of all its groups
  int instructions;              ///< number of instructions for one tile
  int least_architecture;        ///< 80: sm_80
  double input_error;            ///< relative error of rounding a factor
  bool is_of_warpgroup = false;  ///< wgmma: only on that architecture, in its variant "a"
  /// Features of the CPUs whose cores have the instruction; empty for those of GPUs.
  std::span<const std::string_view> features = {};

  bool is_of_core() const { return !features.empty(); }
  bool is_of_warp() const { return !is_of_core() && !is_of_warpgroup; }
};

inline constexpr int64_t tile_rows = 16, tile_columns = 8;
inline constexpr int64_t lane_rows = 8, lane_columns = 4;  ///< arrangement of a warp's lanes
/// Extent of the loops h and e: the number of rows, and of columns, of a tile that one lane sums.
inline constexpr int64_t tile_part = 2;
/// Sizes of a warpgroup's tile: each of its warps has 16 rows, as in a warp's tile.
inline constexpr int64_t warpgroup_warps = 4, warpgroup_rows = 64, most_warpgroup_columns = 256;
/// Largest number of contiguous neighbours in an MN-major factor.
inline constexpr int64_t most_mn_neighbours = 64;
/// Input error that counts as exact for f32: its last bits.
inline constexpr double exact_input_error = 0x1p-20;

std::span<const TensorTile> tensor_tiles();
/// The tile of that name; null if there is none.
const TensorTile* find_tensor_tile(std::string_view name);

/// True if a factor may have the type.
bool takes(const TensorTile& tile, DType factor);

/// Requires a tile of a GPU. Multiply-adds a cycle and multiprocessor of products that it computes,
/// all of its instructions counted. The rate of tensor cores halves with each doubling of the
/// operand's size.
double multiply_adds(const TensorTile& tile, const Gpu& gpu);

/// True if a GPU has the tile's instruction. Architecture 90 in its variant "a" is sm_90a.
bool has_tile(const TensorTile& tile, int architecture, bool is_variant_a);
/// True if the warpgroup instruction exists with that number of columns.
bool has_columns(const TensorTile& tile, int64_t columns);
/// True if its factors may be MN-major with that number of neighbours.
bool has_mn_major(const TensorTile& tile, int64_t neighbours);

/// A tile's loops in a program, and the reads of its factors. Points into the program.
struct TensorNest {
  const TensorTile* tile;
  const Loop *part, *column, *depth;  ///< h, e and k above
  const Assign* sum;
  const dsl::Read *by_row, *by_column;  ///< the factors
  std::string lane_row, lane_column;    ///< the loops r and c
  const Loop* columns = nullptr;        ///< j in a warpgroup's tile
  std::string warp;                     ///< w in a warpgroup's tile
  const Loop* column_groups = nullptr;  ///< i, where j has one around it
};
/// Rows and columns of the tile.
int64_t rows_of(const TensorNest& nest);
int64_t columns_of(const TensorNest& nest);

/// Analyses the tile of a loop. Requires: the loop names a tile and is in the nest's body. Invalid:
/// its loops, the sum in them or the nest do not have the form of a tile.
Result<TensorNest> tensor_nest(const Loop& loop, const ThreadNest& threads);

/// Number of elements of a factor that one lane has for an instruction: neighbours along k, 8
/// bytes.
int64_t lane_elements(const TensorTile& tile);
/// Indices of a lane's element `i`: for the rows of `part` (0 or 1), and for the columns. A sum may
/// take its terms in any order, so a lane has neighbours where the instruction's order has strides.
std::vector<Expr> row_indices(const TensorNest& nest, const Expr& part, const Expr& i);
std::vector<Expr> column_indices(const TensorNest& nest, const Expr& i);

/// Indices of the first element of a warpgroup's factor: its first row, or column, and first term.
std::vector<Expr> first_of_rows(const TensorNest& nest);
std::vector<Expr> first_of_columns(const TensorNest& nest);
/// Indices of the first of a thread's accumulators.
std::vector<Expr> first_of_sums(const TensorNest& nest);

/// The layout of a warpgroup's factor in its buffer.
struct FactorLayout {
  bool is_mn_major = false;
  int64_t group_bytes = 0;  ///< if MN-major: distance of groups of 64; 0 if there is one
};
FactorLayout layout_of_rows(const TensorNest& nest, const Buffer& buffer);
FactorLayout layout_of_columns(const TensorNest& nest, const Buffer& buffer);

/// Checks that every tile of the phase is complete, that its factors are not private to a thread
/// and do not change while it is computed, that all lanes of a warp compute it together, and that
/// the target has the instruction. Fails with ErrorCode::Invalid.
Status check_tensor_tiles(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules
