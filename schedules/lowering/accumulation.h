// SPDX-License-Identifier: Apache-2.0
#pragma once
// The accumulators of reductions and scans, and the case that loops of a reduction lie outside of
// its accumulator, so that partial sums are stored. Pure functions. Private to lowering.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Index of the outermost loop of the part of the nest that initialises an accumulator, accumulates
/// in it and writes the result.
size_t core_start(const StageNest& s);

/// The buffer in which a reduction accumulates, and the indices of the element that an iteration
/// adds to. It is a separate buffer, with an element for each iteration of the spatial loops from
/// `start` inwards, or the tensor of the result.
struct Accumulator {
  Buffer buffer;
  std::vector<Expr> at;
};
/// The accumulator of a reduction. `result_at` are the indices of the element in the tensor of the
/// result.
Accumulator accumulator_of_sums(const StageNest& s, size_t start, std::vector<Expr> result_at);
/// The accumulator of a scan, always a separate buffer.
Accumulator accumulator_of_running_values(const StageNest& s, size_t start);

/// Conditions on the reduction loops outside of the accumulator. Their iterations are blocks: each
/// block but the first continues from the partial sum that the block before stored. Without such
/// loops (`any` is false) the only block is both the first and the last.
struct OuterBlocks {
  bool any = false;
  Expr is_first, is_later, is_last, is_earlier;
};
OuterBlocks blocks_outside(const StageNest& s, size_t start);

/// Invalid if partial sums would be stored in the tensor of an epilogue whose type differs from
/// that of the reduction.
Status check_accumulation(const StageNest& s);
/// Invalid if the stage has a copy of results (cache_result) that would copy partial sums, or
/// results that another task computes.
Status check_result_copy(const Nest& nest, const StageNest& s);

}  // namespace tw::schedules
