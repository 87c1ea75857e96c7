// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a search space that is for GPUs: which knobs a stage has, and the steps of a point.
//
//   - A reduction of a product whose operands have axes of their own is a matrix product, rows by
//     columns (a convolution: pixels by channels). A block computes a tile of it, each thread a
//     tile of that in registers; blocks of the reduction pass through shared memory, where all
//     threads put them together (cache_operand; implicit GEMM), several blocks ahead of what is
//     computed (pipeline). Where types and target have a tensor tile (tensor_tiles.h), the threads
//     of a warp, or of a warpgroup, may compute the sums together instead.
//   - Other reductions, and stages without one, give each thread a few neighbouring elements.
//   - A reduction along the contiguous axis is split over the threads of a block first (rfactor).
//
// Producers may be computed in the rows of their consumer, which are blocks then. Free functions;
// thread-safe.

#include "schedules/construction.h"
#include "schedules/knobs.h"
#include "schedules/stage_plan.h"

namespace tw::schedules {

/// Requires, here and below: a plan for a GPU.
Knobs gpu_knobs_of(const ComputePlan& plan);

/// Whether blocks fit the target and no two choices contradict.
bool meets_gpu_constraints(const ComputePlan& plan, const StagePlan& stage, const Knobs& knobs,
                           const Point& point);

/// All steps. The schedule may have failed or be illegal.
Construction construct_for_gpu(const ComputePlan& plan, const Knobs& knobs, const Point& point);

/// Higher for tiles of a usual size: a guess without any measurement.
double gpu_plainness(const ComputePlan& plan, const Knobs& knobs, const Point& point);

}  // namespace tw::schedules
