// SPDX-License-Identifier: Apache-2.0
#pragma once
// emit(): the first pass of lower(). It makes a phase of loops and statements from a stage,
// including the accumulator, the epilogue, and the producers that are computed in the stage's
// loops. Guards are `if` statements directly around the statements that compute. A copy of an
// operand stands before the statements that read it. Tensors are indexed by logical indices, [n, c,
// y, x]; finish() replaces them by indices of the storage layout.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Returns the phase of a stage. Invalid, with the reason, if the stage's loops cannot be a phase.
/// Requires: the stage is not computed inside of another stage. Pure and deterministic.
Result<Phase> emit(const Nest& nest, const StageNest& stage);

}  // namespace tw::schedules
