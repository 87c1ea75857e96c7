// SPDX-License-Identifier: Apache-2.0
#pragma once
// Branches that some lanes of a vector take and others do not: decides which branches can run under
// a mask, and at which cost. Private to codegen/halide. Not thread-safe for one scope.
//
// Scalarising a divergent branch would make one branch per lane. Instead, lanes that do not take
// the branch keep their old values. In memory that is private to the thread, a select keeps them,
// so that accumulators stay in registers; in other memory, a masked store does. If the target has
// no masked store or load for the type, vectors whose lanes all take the branch get a version
// without a mask:
//
//   vector v in 0..8:  if x * 8 + v < n: s
//     ->  if x * 8 + 7 < n: vector v in 0..8: s
//         else: vector v in 0..8, under the mask x * 8 + v < n: s

#include <optional>
#include <vector>

#include "codegen/halide/phase_scope.h"
#include "codegen/halide/target.h"

namespace tw::codegen::halide {

/// True if every statement can run under a mask. With `anywhere`, the lanes may access elements
/// that are not contiguous in memory.
bool can_be_masked(const PhaseScope& scope, const Block& body, bool anywhere);

/// True if every access that may need a mask is contiguous and of a type that the target can mask.
bool are_masks_cheap(const PhaseScope& scope, const Masks& masks, const Block& body);

/// Returns a condition without the lane's number under which all lanes meet `condition`; nullopt if
/// none is found.
std::optional<Expr> in_all_lanes(const PhaseScope& scope, const Expr& condition);

/// True if the loop is a vector loop that contains a branch, and its lanes fill whole native
/// vectors of an accessed type with one lane left over. Halide 21 masks the loads and stores of
/// vectors under a branch, and fails for the lane that is left over.
bool leaves_masked_lane(const PhaseScope& scope, const Masks& masks, const Loop& loop);

/// True if the lanes of an access by these indices fill whole native vectors with one lane left
/// over, as seven lanes of f64 do if native vectors have two. Halide 21 fails at a masked load of
/// one lane.
bool leaves_one_lane(const PhaseScope& scope, const Masks& masks, DType type,
                     const std::vector<Expr>& indices);

}  // namespace tw::codegen::halide
