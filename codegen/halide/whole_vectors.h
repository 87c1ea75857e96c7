// SPDX-License-Identifier: Apache-2.0
#pragma once
// Widens vector loops whose number of lanes is no power of two to whole vectors.
//
// LLVM splits vectors of 12 lanes and keeps them in memory. So they become vectors of 16 lanes, of
// which 4 are masked. Lanes 1 to 15 become 0 to 15, because their arrays probably begin at 0.
// Private to codegen/halide. Not thread-safe for one scope.

#include <optional>

#include "codegen/halide/phase_scope.h"
#include "codegen/halide/target.h"

namespace tw::codegen::halide {

struct WholeVector {
  Expr begin, end;
};

/// Returns the range of the loop as a whole vector; nullopt if the loop stays as it is.
std::optional<WholeVector> whole_vector(const PhaseScope& scope, const Masks& masks,
                                        const Loop& loop);

/// Returns the buffer with rows of whole vectors, if whole_vector() widens the loops over its rows.
/// Without this, the added lanes would belong to the next row: stores would need masks, which keep
/// accumulators in memory, and each load would wait for two stores.
///
///   acc[13][14], vector x in 0..14 of 16 lanes   ->   acc[13][16]
///
/// Requires: the buffer is in scope.
Buffer with_whole_rows(const PhaseScope& scope, const Masks& masks, const Buffer& buffer,
                       const Block& body);

/// Returns the condition that a lane exists in the loop before widening. Requires: the loop was
/// entered.
HExpr lane_exists(const PhaseScope& scope, const Loop& loop);

}  // namespace tw::codegen::halide
