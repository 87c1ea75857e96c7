// SPDX-License-Identifier: Apache-2.0
#pragma once
// emit(): the first pass of lower(). It makes a phase of loops and statements from a stage, with
// its accumulator, epilogue and the producers that are computed in its loops. Guards are around the
// innermost statements, and copies of operands before the statements that read them. Indices are
// logical: finish() makes those of layouts.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Returns the phase of a stage, or Invalid with the reason why its loops cannot be a phase.
/// Requires: the stage is not computed inside of another stage. Pure and deterministic.
Result<Phase> emit(const Nest& nest, const StageNest& stage);

}  // namespace tw::schedules
