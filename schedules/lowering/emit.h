// SPDX-License-Identifier: Apache-2.0
#pragma once
// emit(): the first pass of lower(). It makes a phase of loops and statements from a stage. The
// phase includes the accumulator, the epilogue, and the producers that are computed in the stage's
// loops. Guards are `if` statements directly around the statements that compute. Copies of an
// operand stand before the statements that read the operand. Tensors have logical indices, [n, c,
// y, x], which finish() replaces by indices of the storage layout.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Returns the phase of a stage. Invalid, with the reason, if the stage's loops cannot be a phase.
/// Requires: the stage is not computed inside of another stage. Pure and deterministic.
Result<Phase> emit(const Nest& nest, const StageNest& stage);

}  // namespace tw::schedules
