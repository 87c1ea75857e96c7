// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vector loops whose number of lanes is no power of two, widened to whole vectors.
//
// LLVM splits vectors of 12 lanes and keeps them in memory, so they become vectors of 16, of
// which 4 lanes are masked. Lanes 1 to 15 become 0 to 15, since their arrays probably begin at 0.
// Private to codegen/halide. Not thread-safe for one scope.

#include <optional>

#include "codegen/halide/phase_scope.h"
#include "codegen/halide/target.h"

namespace tw::codegen::halide {

struct WholeVector {
  Expr begin, end;
};

/// The range of the loop as a whole vector; nullopt if the loop stays as it is.
std::optional<WholeVector> whole_vector(const PhaseScope& scope, const Masks& masks,
                                        const Loop& loop);

/// The buffer with rows of whole vectors where whole_vector() widens the loops over its rows.
/// Else the added lanes would be the next row's: stores would need masks, which keep accumulators
/// in memory, and each load would wait for two stores.
///
///   acc[13][14], vector x in 0..14 of 16 lanes   ->   acc[13][16]
///
/// Requires: the buffer is in scope.
Buffer with_whole_rows(const PhaseScope& scope, const Masks& masks, const Buffer& buffer,
                       const Block& body);

/// The condition that a lane exists. Requires: the loop was entered.
HExpr lane_exists(const PhaseScope& scope, const Loop& loop);

}  // namespace tw::codegen::halide
