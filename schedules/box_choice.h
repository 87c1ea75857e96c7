// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which operands of a product can be copied in bulk, by the structure of the stage alone: what a
// search space for GPUs asks before it offers to. Pure and thread-safe.

#include <cstddef>

#include "schedules/stage_plan.h"

namespace tw::schedules {

/// What neighbours in memory are: terms of a sum, or rows (of the second operand: columns). None:
/// blocks of the operand are no boxes.
enum class BoxNeighbours { None, Terms, Rows };

/// Requires: a product; operand 0 or 1.
BoxNeighbours box_neighbours(const ComputePlan& compute, const StagePlan& plan, size_t operand);

}  // namespace tw::schedules
