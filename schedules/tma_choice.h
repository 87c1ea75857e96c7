// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides from the structure of a stage which operands of a product TMA can copy; search spaces for
// GPUs offer TMA copies only for these. Pure and thread-safe.

#include <cstddef>

#include "schedules/stage_plan.h"

namespace tw::schedules {

/// The direction along which elements of an operand are contiguous in memory. Terms: along the
/// reduction. Rows: along rows, or columns for the second operand. None: TMA cannot copy blocks of
/// the operand.
enum class TmaNeighbours { None, Terms, Rows };

/// The direction for operand 0 or 1. Requires: the stage is a product.
TmaNeighbours tma_neighbours(const ComputePlan& compute, const StagePlan& plan, size_t operand);

}  // namespace tw::schedules
