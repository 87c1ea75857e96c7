// SPDX-License-Identifier: Apache-2.0
#pragma once
// Branches that some lanes of a vector take and others do not: which of them can run under a mask,
// and at which price. Private to codegen/halide. Not thread-safe for one scope.
//
// Scalarising a divergent branch would make one branch per lane. Instead, lanes that do not take
// it keep their old values: by a select in memory of the thread's own, so that accumulators stay
// in registers, and by a masked store elsewhere. If the target has no such store or load, vectors
// all of whose lanes take the branch get a version without a mask:
//
//   vector v in 0..8:  if x * 8 + v < n: s
//     ->  if x * 8 + 7 < n: vector v in 0..8: s
//         else: vector v in 0..8, under the mask x * 8 + v < n: s

#include <optional>
#include <vector>

#include "codegen/halide/phase_scope.h"
#include "codegen/halide/target.h"

namespace tw::codegen::halide {

/// True if every statement can run under a mask. With `anywhere`, lanes need not be contiguous in
/// memory.
bool can_be_masked(const PhaseScope& scope, const Block& body, bool anywhere);

/// True if every access that may need a mask is contiguous and of a type that the target can mask.
bool are_masks_cheap(const PhaseScope& scope, const Masks& masks, const Block& body);

/// A condition of the other variables under which all lanes meet this one; nullopt if none is
/// found.
std::optional<Expr> in_all_lanes(const PhaseScope& scope, const Expr& condition);

/// True if the loop is a vector loop with a branch in it, and the lanes of an access fill whole
/// native vectors with one lane left over. Halide 21 masks the loads and stores of vectors under
/// a branch, and fails for that lane.
bool leaves_masked_lane(const PhaseScope& scope, const Masks& masks, const Loop& loop);

/// True if an access by these indices has one lane beside whole native vectors. Halide 21 fails at
/// a masked load of one lane, which is what is left of seven lanes of f64 where native vectors have
/// two.
bool leaves_one_lane(const PhaseScope& scope, const Masks& masks, DType type,
                     const std::vector<Expr>& indices);

}  // namespace tw::codegen::halide
