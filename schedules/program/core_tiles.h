// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tiles of a core: tensor tiles (tensor_tiles.h) that one thread of a CPU computes by itself, by
// one instruction on tile registers of up to 16 rows of 64 bytes (Intel AMX: tdpbusd, tdpbf16ps).
// Neighbouring terms are groups of 4 bytes, as in dot products (dot_products.h):
//
//   tensor m in 0..16 amx_m16n16k64_i8
//     tensor n in 0..16
//       tensor g in 0..16
//         tensor t in 0..4
//           acc[..., m, n] += i32(a[..., m, ..., 4 * g + t]) * i32(b[..., g, n, t])
//
// The loops m, n and g may have fewer iterations. Sums stay in a tile register while the loops
// around them run in which nothing but tiles is computed. Pure functions and plain values;
// thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "schedules/program/bounds.h"
#include "schedules/program/program.h"
#include "schedules/program/tensor_tiles.h"

namespace tw::schedules {

/// The most iterations of each of the loops m, n and g: rows of a tile register, or groups of 4
/// bytes in a row.
inline constexpr int64_t most_core_extent = 16;
/// The number of tile registers of a core, and the most that hold sums: two hold factors.
inline constexpr int64_t core_tile_registers = 8, most_core_sums = core_tile_registers - 2;

/// Number of terms in a group of 4 bytes: the extent of the loop t.
int64_t group_terms(const TensorTile& tile);

/// True if the target's cores have the tile's instruction.
bool has_core_tile(const TensorTile& tile, const Target& target);
/// True if the target's cores have any tile.
bool has_core_tiles(const Target& target);
/// The tile by which the target's cores sum the products of the stage; null if there is none.
const TensorTile* core_tile_for(const Target& target, const dsl::Stage& stage);
/// Dot products of vectors that the core computes in a cycle by the tile: a full tile is 16 * 16.
double dots_per_cycle(const TensorTile& tile, const Core& core);
/// Terms of a sum that the tile's instruction adds in the time of a multiply-add of a vector.
double speed_of(const TensorTile& tile, const Core& core);

/// A tile's loops in a program, and the reads of its factors. Points into the program.
struct CoreNest {
  const TensorTile* tile;
  const Loop *row, *column, *group, *term;  ///< m, n, g and t above
  const Assign* sum;
  const dsl::Read *by_row, *by_column;  ///< the factors: a and b above

  int64_t rows() const;
  int64_t columns() const;
  int64_t groups() const;
};
/// Analyses the tile of a loop. Requires: the loop names a tile of a core. Invalid: its loops or
/// the sum in them do not have the form of a tile.
Result<CoreNest> core_nest(const Loop& loop);

/// The buffers of a tile's factors and sums.
struct CoreBuffers {
  const Buffer &by_row, &by_column, &sums;
};
/// The distances of the rows of a tile in memory, in elements: of the rows of `a`, of the groups of
/// `b`, and of the rows of sums.
struct CoreStrides {
  int64_t by_row, by_column, sums;
};
/// Gives the distances, if the elements lie in memory as the instruction reads them: neighbours
/// side by side, and rows at equal distances. Invalid: they do not. `bounds` are those of all loops
/// around the sum.
Result<CoreStrides> core_strides(const CoreNest& nest, const CoreBuffers& buffers,
                                 const Bounds& bounds);

/// Indices of the tile's first element.
std::vector<Expr> first_of_tile(const CoreNest& nest, const std::vector<Expr>& indices);

/// The buffer in which the statement sums, if tiles that the target's cores have are all that it
/// computes, and they sum in one buffer: while it runs, the sums are in tile registers. Null: it is
/// another statement.
const std::string* sums_of_tiles(const Stmt& stmt, const Target& target);
/// True if the statement sets all elements of the buffer to 0 and does nothing else. Tile registers
/// whose sums begin so need not be loaded.
bool sets_to_zero(const Stmt& stmt, const Buffer& buffer);

/// Checks that every tile of a core in the phase has the form of one, that its elements lie as the
/// instruction reads them, and that its sums fit the tile registers: they are in a buffer of the
/// task that holds tiles of one shape, one after the other, and the loops are unrolled that number
/// them. Fails with ErrorCode::Invalid.
Status check_core_tiles(const Program& program, const Phase& phase);

}  // namespace tw::schedules
