// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensor tiles: products of small matrices that the 32 threads of a warp compute together, by one
// instruction of a GPU's tensor cores (PTX: mma.sync), or the 128 of a warpgroup (wgmma). What a
// tile means is what its loops say, and wherever nobody knows better they run as loops: each lane
// sums its own four elements of 16 rows and 8 columns.
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
// A warpgroup has 64 rows, 16 of each warp w, and 8 columns for each turn of a loop j:
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
// Its instruction reads the factors itself, from shared memory: the rows of a block of the
// reduction, each as long as the buffer's swizzle (program.h), one after the other (K-major). Or,
// of 16 bits, 64 neighbouring rows or columns for each term of the block, term after term, swizzled
// by these 128 bytes (MN-major), or all columns where these are 32 or 16; there are several groups
// of 64 columns where j is two loops, of which the inner has 8 turns:
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
#include "schedules/program.h"
#include "schedules/threads.h"

namespace tw::schedules {

/// One row of the table. Sums are of `accumulator`, factors of `operand`, widened.
struct TensorTile {
  std::string_view name;
  DType operand, accumulator;
  int64_t depth;                 ///< terms of a sum: the extent of the loop over k
  int instructions;              ///< for one tile
  int least_architecture;        ///< 80: sm_80
  double input_error;            ///< relative, of rounding a factor
  bool is_of_warpgroup = false;  ///< of the one architecture alone, in its variant "a"
};

inline constexpr int64_t tile_rows = 16, tile_columns = 8;
inline constexpr int64_t lane_rows = 8, lane_columns = 4;  ///< how the lanes of a warp stand
/// Of the two outer loops: what of a tile's rows, and of its columns, a lane sums itself.
inline constexpr int64_t tile_part = 2;
/// Of a warpgroup's tile: the warps are 16 rows each, as those of a warp's tile.
inline constexpr int64_t warpgroup_warps = 4, warpgroup_rows = 64, most_warpgroup_columns = 256;
/// Neighbours of an MN-major factor, at most.
inline constexpr int64_t mn_group = 64;

std::span<const TensorTile> tensor_tiles();
/// Null where there is none of that name.
const TensorTile* find_tensor_tile(std::string_view name);

/// Whether a target has the tile's instruction. Architecture 90 in its variant "a" is sm_90a.
bool has_tile(const TensorTile& tile, int architecture, bool is_variant_a);
/// Whether an instruction of a warpgroup has so many columns.
bool has_columns(const TensorTile& tile, int64_t columns);
/// Whether its factors may be MN-major, of so many neighbours.
bool has_mn_major(const TensorTile& tile, int64_t neighbours);

/// A tile's loops in a program, and what its factors are read from. Points into the program.
struct TensorNest {
  const TensorTile* tile;
  const Loop *part, *column, *depth;  ///< h, e and k above
  const Assign* sum;
  const dsl::Read *by_row, *by_column;  ///< the factors
  std::string lane_row, lane_column;    ///< the loops r and c
  const Loop* columns = nullptr;        ///< j, of a warpgroup's tile
  std::string warp;                     ///< w, of a warpgroup's tile
  const Loop* groups = nullptr;         ///< i, where j has one around it
};
/// Rows and columns of the tile.
int64_t rows_of(const TensorNest& nest);
int64_t columns_of(const TensorNest& nest);

/// Requires: a loop that names a tile, in the nest's body. Invalid: its loops, what they sum or the
/// nest are not as a tile needs them.
Result<TensorNest> tensor_nest(const Loop& loop, const ThreadNest& threads);

/// Factors that one lane has for an instruction, neighbours along k: 8 bytes.
int64_t lane_elements(const TensorTile& tile);
/// Where these are: element `i` for the rows of `part`, 0 or 1, and for the columns. A sum may take
/// its terms in any order, so a lane has neighbours where the instruction's order has strides.
std::vector<Expr> row_indices(const TensorNest& nest, const Expr& part, const Expr& i);
std::vector<Expr> column_indices(const TensorNest& nest, const Expr& i);

/// Where the first element of a warpgroup's factor is, of its first row or column and term.
std::vector<Expr> first_of_rows(const TensorNest& nest);
std::vector<Expr> first_of_columns(const TensorNest& nest);
/// And of a thread's sums.
std::vector<Expr> first_of_sums(const TensorNest& nest);

/// How a warpgroup's factor lies in its buffer.
struct FactorLayout {
  bool is_mn_major = false;
  int64_t group_bytes = 0;  ///< then, from a group of 64 to the next; 0 where there is one
};
FactorLayout layout_of_rows(const TensorNest& nest, const Buffer& buffer);
FactorLayout layout_of_columns(const TensorNest& nest, const Buffer& buffer);

/// Every tile of the phase is whole, its factors are not a thread's own and stay what they are
/// while it is computed, and all lanes of a warp compute it together; the target has the
/// instruction. ErrorCode::Invalid says what is wrong.
Status check_tensor_tiles(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules
