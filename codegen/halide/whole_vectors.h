// SPDX-License-Identifier: Apache-2.0
#pragma once
// Widens vector loops whose number of lanes is not a power of two, so that they fill whole vectors.
//
// LLVM splits a vector of, for example, 12 lanes and keeps it in memory. So the loop gets 16 lanes,
// of which 4 are masked off. A loop over lanes 1 to 15 (inclusive) becomes a loop over 0 to 15, not
// over 1 to 16, because arrays probably begin at index 0. Private to codegen/halide. Not
// thread-safe for one scope.

#include <optional>

#include "codegen/halide/phase_scope.h"
#include "codegen/halide/target.h"

namespace tw::codegen::halide {

struct WholeVector {
  Expr begin, end;
};

/// Returns the range of the widened loop; nullopt if the loop is not widened.
std::optional<WholeVector> whole_vector(const PhaseScope& scope, const Masks& masks,
                                        const Loop& loop);

/// Returns the buffer with longer rows if `body` has loops along its rows that whole_vector()
/// widens, else the unchanged buffer. The longer rows have room for the added lanes:
///
///   acc[13][14], vector x in 0..14 of 16 lanes   ->   acc[13][16]
///
/// If the rows kept their length, the added lanes would be elements of the next row. Stores would
/// then need masks, and masked stores keep accumulators in memory instead of in registers. Each
/// load of an accumulator would wait for two stores. Requires: the buffer is in scope.
Buffer with_whole_rows(const PhaseScope& scope, const Masks& masks, const Buffer& buffer,
                       const Block& body);

/// Returns the condition under which a lane of the widened loop is also a lane of `loop`, the loop
/// before widening. Requires: the scope has entered the loop.
HExpr lane_exists(const PhaseScope& scope, const Loop& loop);

}  // namespace tw::codegen::halide
