// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which branches can run under a mask, and at which cost. The branches in question are
// those that some lanes of a vector take and other lanes do not. Private to codegen/halide. Not
// thread-safe for one scope.
//
// If such a branch were scalarised, each lane would have a branch of its own. Instead, the
// statements run for all lanes, and lanes that do not take the branch keep their old values. In
// memory that is private to the thread a select keeps the old values, so that accumulators stay in
// registers; in other memory a masked store keeps them. If the target has no masked store or load
// for the type, there is a version without a mask for vectors whose lanes all take the branch:
//
//   vector v in 0..8:  if x * 8 + v < n: s
//     ->  if x * 8 + 7 < n: vector v in 0..8: s
//         else: vector v in 0..8, under the mask x * 8 + v < n: s

#include <optional>
#include <vector>

#include "codegen/halide/phase_scope.h"
#include "codegen/halide/target.h"

namespace tw::codegen::halide {

/// True if every statement of the body can run under a mask. If `anywhere` is false, the lanes of
/// each access must also be contiguous in memory.
bool can_be_masked(const PhaseScope& scope, const Block& body, bool anywhere);

/// True if every access that may need a mask is contiguous, and the target can mask accesses of its
/// type.
bool are_masks_cheap(const PhaseScope& scope, const Masks& masks, const Block& body);

/// Returns a condition that does not depend on the lane. Where it holds, `condition` holds in all
/// lanes. Example for lanes v in 0..8: x * 8 + v < n gives x * 8 + 7 < n. Returns nullopt if no
/// such condition is found.
std::optional<Expr> in_all_lanes(const PhaseScope& scope, const Expr& condition);

/// True if Halide 21 would fail at the loop's masked accesses. Halide masks the loads and stores of
/// a vector loop that contains a branch, and fails if the lanes fill whole native vectors with one
/// lane left over, for example 9 lanes of f32 if native vectors have 4.
bool leaves_masked_lane(const PhaseScope& scope, const Masks& masks, const Loop& loop);

/// True if Halide 21 would fail at a masked load by these indices, because the lanes fill whole
/// native vectors with one lane left over. Example: seven lanes of f64 if native vectors have two.
bool leaves_one_lane(const PhaseScope& scope, const Masks& masks, DType type,
                     const std::vector<Expr>& indices);

}  // namespace tw::codegen::halide
