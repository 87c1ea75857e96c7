// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bulk copies: boxes of a tensor that the copy engine of a GPU moves into shared memory, asked for
// by one thread (PTX: cp.async.bulk.tensor, CUTLASS: TMA). What a box means is what its loops say,
// and wherever nobody knows better they run as loops, in thread 0.
//
//   bulk i in 0..64
//     bulk k in 0..32
//       async s[k.0 % 3, i, k] = a[m.0 * 64 + i, k.0 * 32 + k] if k.0 * 32 + k < 100 else 0.0
//
// The engine knows the tensor by extents and strides, and a box by the index of its first element
// in each dimension; what of it lies outside of the tensor is zeros:
//
//   dimension    extent  stride  box  first
//   k, innermost    100       1   32  k.0 * 32
//   i             1,000     100   64  m.0 * 64
//
// Pure functions and plain values; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedules/program.h"

namespace tw::schedules {

struct Limits;

inline constexpr int bulk_architecture = 90;  ///< sm_90 and newer
inline constexpr size_t most_box_dimensions = 5;
inline constexpr int64_t most_box_iterations = 256;  ///< of a dimension
/// Strides of the tensor and rows of a box are multiples of this.
inline constexpr int64_t engine_bytes = 16;
/// Where a box begins in shared memory is a multiple of this.
inline constexpr int64_t box_alignment = 128;

struct BoxDimension {
  int64_t extent = 1;  ///< of the tensor
  int64_t stride = 1;  ///< in elements
  int64_t box = 1;     ///< elements of the box
  Expr first = 0;      ///< the index of the box's first element: any integer
  /// Nothing of the box lies past the end in this dimension: the extent is as much as is read.
  bool is_inside = true;
};

struct BulkCopy {
  /// Of the outermost loop: which copy this is. Points into the program.
  const Block* body = nullptr;
  std::string source, destination;
  std::vector<BoxDimension> dimensions;  ///< innermost first, dense in the destination
  std::vector<Expr> to;                  ///< where the first element goes
  int64_t bytes = 0;
};

/// The bulk copies of the phase, in order. Copies of a tensor by equal strides and boxes have equal
/// extents where they may, so that one description serves them. Invalid: a nest of bulk loops is no
/// such copy.
Result<std::vector<BulkCopy>> bulk_copies(const Program& program, const Phase& phase);

bool has_bulk_copies(const Block& body);

/// Groups of copies that a thread has begun and not yet waited for are fewer than these, a power of
/// two; 0 without bulk copies. Each has a barrier in shared memory.
inline constexpr int64_t group_barrier_bytes = 8;
int64_t bulk_groups(const Block& body);

/// All bulk loops are such copies, and the target has the engine. ErrorCode::Invalid says what is
/// wrong.
Status check_bulk_copies(const Program& program, const Phase& phase, const Limits& limits);

}  // namespace tw::schedules
