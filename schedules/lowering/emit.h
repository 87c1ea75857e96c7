// SPDX-License-Identifier: Apache-2.0
#pragma once
// emit(): the first pass of lower(). A stage becomes a phase of loops and statements: accumulators,
// epilogues and placed producers, guards innermost, copies of operands ahead of what uses them.
// Indices are logical ones, not yet those of layouts.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Requires: the stage is not computed inside of another. Invalid with the reason where its loops
/// cannot be a phase. Pure and deterministic.
Result<Phase> emit(const Nest& nest, const StageNest& stage);

}  // namespace tw::schedules
