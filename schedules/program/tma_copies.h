// SPDX-License-Identifier: Apache-2.0
#pragma once
// TMA copies (PTX: cp.async.bulk.tensor): one thread asks the copy engine of a GPU to move a box,
// i.e. a tile of a tensor, into shared memory. In programs a TMA copy is a nest of bulk loops. It
// has the same effect as these loops, and on targets without the engine thread 0 runs the loops.
//
//   bulk i in 0..64
//     bulk k in 0..32
//       async s[k.0 % 3, i, k] = a[m.0 * 64 + i, k.0 * 32 + k] if k.0 * 32 + k < 100 else 0.0
//
// The engine gets the tensor's extents and strides once, and for each box the indices of the box's
// first element. It fills the parts of a box that lie outside of the tensor with zeros:
//
//   dimension    extent  stride  box  first
//   k, innermost    100       1   32  k.0 * 32
//   i             1,000     100   64  m.0 * 64
//
// Pure functions and plain values; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/machine.h"
#include "base/result.h"
#include "schedules/program/program.h"

namespace tw::schedules {

struct Limits;

/// the first architecture with TMA, sm_90
inline constexpr int tma_architecture = Gpu::tma_architecture;
inline constexpr size_t most_tma_dimensions = 5;
/// Largest number of elements of a box along one dimension.
inline constexpr int64_t most_tma_iterations = 256;
/// The engine works in units of this number of bytes: strides of the tensor and rows of a box must
/// be multiples of it.
inline constexpr int64_t engine_bytes = 16;
/// Alignment in bytes of a box in shared memory.
inline constexpr int64_t tma_alignment = 128;

struct TmaDimension {
  int64_t extent = 1;  ///< extent of the tensor along the dimension
  int64_t stride = 1;  ///< distance of neighbours in the tensor's memory, in elements
  int64_t box = 1;     ///< extent of the box along the dimension
  Expr first = 0;      ///< index of the box's first element; may be negative
  /// True if `extent` covers all elements that boxes read along this dimension. Then no box extends
  /// past the end.
  bool is_inside = true;
};

struct TmaCopy {
  /// Points to the body of the outermost bulk loop, in the program. This address identifies the
  /// copy.
  const Block* body = nullptr;
  std::string source, destination;
  std::vector<TmaDimension> dimensions;  ///< innermost first; the box is dense in the destination
  std::vector<Expr> to;                  ///< indices of the first element in the destination
  int64_t bytes = 0;
};

/// Returns the TMA copies of the phase, in the order of the statements. Copies from one tensor that
/// have equal strides and boxes get equal extents where that is possible, so that they share a
/// tensor map (CUtensorMap). Invalid if a nest of bulk loops is not a copy that TMA can make.
Result<std::vector<TmaCopy>> tma_copies(const Program& program, const Phase& phase);

bool has_tma_copies(const Block& body);

inline constexpr int64_t mbarrier_bytes = 8;
/// Returns the number of mbarriers on which copies arrive; 0 without TMA copies. Each commit group
/// in flight needs an mbarrier of its own. A pipeline with `wait 2`, which waits for all groups but
/// the last 2, has up to 3 groups in flight, and the next pipeline may begin with 3 more. The sum
/// of 6 is rounded up to a power of two, 8. Shared memory has as many mbarriers again for producer
/// warps.
int64_t tma_barriers(const Block& body);

/// Checks that all bulk loops are valid TMA copies, and that the target has the copy engine. Fails
/// with ErrorCode::Invalid.
Status check_tma_copies(const Program& program, const Phase& phase, const Limits& limits);

}  // namespace tw::schedules
