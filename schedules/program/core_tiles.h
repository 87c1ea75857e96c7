// SPDX-License-Identifier: Apache-2.0
#pragma once
// Core tiles: tensor tiles (tensor_tiles.h) that one thread of a CPU computes, by an instruction on
// tile registers of up to 16 rows of 64 bytes (Intel AMX: tdpbusd, tdpbf16ps). Neighbouring terms
// form groups of 4 bytes, as in dot products (dot_products.h):
//
//   tensor m in 0..16 amx_m16n16k64_i8
//     tensor n in 0..16
//       tensor g in 0..16
//         tensor t in 0..4
//           acc[..., m, n] += i32(a[..., m, ..., 4 * g + t]) * i32(b[..., g, n, t])
//
// The loops m, n and g may have fewer iterations. If the body of a loop around the tile computes
// nothing but tiles, the sums stay in a tile register throughout that loop. Pure functions and
// plain values; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "schedules/program/bounds.h"
#include "schedules/program/program.h"
#include "schedules/program/tensor_tiles.h"

namespace tw::schedules {

/// The most iterations of each of the loops m, n and g. A tile register has 16 rows, and 16 groups
/// of 4 bytes in a row.
inline constexpr int64_t most_core_extent = 16;
/// A core has 8 tile registers. At most 6 hold sums, and the other two hold the two factors.
inline constexpr int64_t core_tile_registers = 8, most_core_sums = core_tile_registers - 2;

/// Returns the number of terms in a group of 4 bytes, i.e. the extent of the loop t: 4 for i8, 2
/// for bf16.
int64_t group_terms(const TensorTile& tile);

/// True if the target's cores have the tile's instruction.
bool has_core_tile(const TensorTile& tile, const Target& target);
/// True if the target's cores have any tile.
bool has_core_tiles(const Target& target);
/// Returns the core tile that can compute the stage's sum of products on the target; null if there
/// is none.
const TensorTile* core_tile_for(const Target& target, const dsl::Stage& stage);
/// Returns the throughput of the tile's instruction, in dot products of vectors per cycle. One dot
/// product of vectors multiplies one group of terms of one row by all columns, which are the lanes.
/// So an instruction on a full tile of 16 rows and 16 groups counts as 256 dot products.
double dots_per_cycle(const TensorTile& tile, const Core& core);
/// Returns the number of terms that the tile's instruction adds to each sum in the time of one
/// multiply-add of a vector, which adds one term to each lane.
double speed_of(const TensorTile& tile, const Core& core);

/// The loops of a core tile in a program, its sum, and the reads of its factors. The pointers point
/// into the program.
struct CoreNest {
  const TensorTile* tile;
  const Loop *row, *column, *group, *term;  ///< the loops m, n, g and t above
  const Assign* sum;
  const dsl::Read *by_row, *by_column;  ///< the factors: a and b above

  int64_t rows() const;
  int64_t columns() const;
  int64_t groups() const;
};
/// Analyses a loop that names a core tile. Invalid if the nested loops or the sum in them do not
/// have the form of the tile.
Result<CoreNest> core_nest(const Loop& loop);

/// The buffers of the factors of a tile and of its sums.
struct CoreBuffers {
  const Buffer &by_row, &by_column, &sums;
};
/// Distances in memory, in elements: from a row of `a` to the next (by_row), from a group of `b` to
/// the next (by_column), and from a row of the sums to the next (sums). In the example above with
/// a: u8[16, 64], b: i8[16, 16, 4] and sums i32[16, 16], they are 64, 64 and 16.
struct CoreStrides {
  int64_t by_row, by_column, sums;
};
/// Computes the distances. Invalid if the elements do not lie in memory as the instruction reads
/// them: the elements of a row must be contiguous, and rows must be at equal distances. `bounds`
/// has the bounds of all loops around the sum.
Result<CoreStrides> core_strides(const CoreNest& nest, const CoreBuffers& buffers,
                                 const Bounds& bounds);

/// Returns `indices` for the tile's first element, i.e. with the variables of the tile's loops set
/// to 0.
std::vector<Expr> first_of_tile(const CoreNest& nest, const std::vector<Expr>& indices);

/// Returns the name of the buffer for whose sums tile registers are used while the statement runs.
/// The statement must be a tile that the target's cores have, or a loop or condition that contains
/// nothing but such tiles, all of which sum in this buffer. Null for any other statement.
const std::string* sums_of_tiles(const Stmt& stmt, const Target& target);
/// True if the statement sets all elements of the buffer to 0 and does nothing else. If such a
/// statement precedes the tiles, their registers begin with zeros and need not be loaded.
bool sets_to_zero(const Stmt& stmt, const Buffer& buffer);

/// Checks the core tiles of the phase. Each must have the form of its tile, and its elements must
/// lie in memory as the instruction reads them. The sums must fit the tile registers. Their buffer
/// is therefore private to the task and holds tiles of one shape, one after the other, and loops
/// whose variables select a tile in it are unrolled. Fails with ErrorCode::Invalid.
Status check_core_tiles(const Program& program, const Phase& phase);

}  // namespace tw::schedules
