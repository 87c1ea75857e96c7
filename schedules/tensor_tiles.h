// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensor tiles: products of small matrices that the 32 threads of a warp compute together, by one
// instruction of a GPU's tensor cores (PTX: mma.sync). What a tile means is what its loops say, and
// wherever nobody knows better they run as loops: each lane sums its own four elements of 16 rows
// and 8 columns.
//
//   thread ... thread r in 0..8                  # the innermost two: lane = 4 r + c
//     thread c in 0..4
//       tensor h in 0..2 mma_m16n8k8_3xtf32
//         tensor e in 0..2
//           tensor k in 0..8
//             acc[..., h, e] += a[..., h, r, k] * b[..., c, e, k]
//
// The first factor depends on the row (h, r) and the second on the column (c, e), or the other way
// round; both are read from memory that all threads see. Pure functions and plain values;
// thread-safe.

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
  int64_t depth;           ///< terms of a sum: the extent of the loop over k
  int instructions;        ///< for one tile
  int least_architecture;  ///< 80: sm_80
  double input_error;      ///< relative, of rounding a factor
};

inline constexpr int64_t tile_rows = 16, tile_columns = 8;
inline constexpr int64_t lane_rows = 8, lane_columns = 4;  ///< how the lanes of a warp stand
/// Of the two outer loops: what of a tile's rows, and of its columns, a lane sums itself.
inline constexpr int64_t tile_part = 2;

std::span<const TensorTile> tensor_tiles();
/// Null where there is none of that name.
const TensorTile* find_tensor_tile(std::string_view name);

/// A tile's loops in a program, and what its factors are read from. Points into the program.
struct TensorNest {
  const TensorTile* tile;
  const Loop *part, *column, *depth;  ///< h, e and k above
  const Assign* sum;
  const dsl::Read *by_row, *by_column;  ///< the factors
  std::string lane_row, lane_column;    ///< the loops r and c
};

/// Requires: a loop that names a tile, in the nest's body. Invalid: its loops, what they sum or the
/// nest are not as a tile needs them.
Result<TensorNest> tensor_nest(const Loop& loop, const ThreadNest& threads);

/// Factors that one lane has for an instruction, neighbours along k: 8 bytes.
int64_t lane_elements(const TensorTile& tile);
/// Where these are: element `i` for the rows of `part`, 0 or 1, and for the columns. A sum may take
/// its terms in any order, so a lane has neighbours where the instruction's order has strides.
std::vector<Expr> row_indices(const TensorNest& nest, const Expr& part, const Expr& i);
std::vector<Expr> column_indices(const TensorNest& nest, const Expr& i);

/// Every tile of the phase is whole, its factors are not a thread's own and stay what they are
/// while it is computed, and all lanes of a warp compute it together; the target has the
/// instruction. ErrorCode::Invalid says what is wrong.
Status check_tensor_tiles(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules
