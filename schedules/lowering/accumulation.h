// SPDX-License-Identifier: Apache-2.0
#pragma once
// The accumulators of reductions and scans, and the blocks of a reduction outside of its
// accumulator. Pure functions. Private to lowering.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Index of the loop from which on a reduction initialises, accumulates and writes.
size_t core_start(const StageNest& s);

/// The buffer in which a reduction accumulates: a buffer of its own, with an element for each
/// iteration of the spatial loops from `start` on, or the result itself.
struct Accumulator {
  Buffer buffer;
  std::vector<Expr> at;
};
/// That of a reduction; `result_at` has the indices of its result.
Accumulator accumulator_of_sums(const StageNest& s, size_t start, std::vector<Expr> result_at);
/// That of a scan, which has a buffer of its own.
Accumulator accumulator_of_running_values(const StageNest& s, size_t start);

/// The conditions of blocks of a reduction outside of the accumulator, where it continues from
/// what is stored. Without such blocks, the first one is also the last one.
struct OuterBlocks {
  bool any = false;
  Expr is_first, is_later, is_last, is_earlier;
};
OuterBlocks blocks_outside(const StageNest& s, size_t start);

/// Invalid for an epilogue of another type than its reduction if partial sums would be stored in
/// the epilogue's tensor.
Status check_accumulation(const StageNest& s);
/// Invalid for a copy of results that an iteration of the accumulator's loop does not have: partial
/// sums, and results of other tasks.
Status check_result_copy(const Nest& nest, const StageNest& s);

}  // namespace tw::schedules
