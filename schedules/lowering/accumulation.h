// SPDX-License-Identifier: Apache-2.0
#pragma once
// The accumulators of reductions and scans. A reduction loop may lie outside of the loop in which
// the accumulator is allocated. The accumulator then holds partial sums, which are stored and
// loaded again. Pure functions. Private to lowering.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Returns the index of the first loop of the core. The core is this loop and all loops inside of
/// it: there an accumulator is initialised, added to and written to the result. With cache_write
/// the first loop is the one directly inside of the loop that cache_write names, else it is the
/// outermost reduction loop. For loops m, n, k, where k reduces, the result is 2; with `cache_write
/// c m` it is 1.
size_t core_start(const StageNest& s);

/// The place where a reduction accumulates. `buffer` is either a separate buffer, with one element
/// for each iteration of the spatial loops of the core (core_start), or the tensor of the result.
/// `at` has the indices of the element to which an iteration adds its term.
struct Accumulator {
  Buffer buffer;
  std::vector<Expr> at;
};
/// Returns the accumulator of a reduction whose core (core_start) begins at the loop with index
/// `start`. With cache_write it is a separate buffer. Without cache_write it is the tensor of the
/// result, of which only the name and the type are set, and `result_at` has the indices of the
/// element there.
Accumulator accumulator_of_sums(const StageNest& s, size_t start, std::vector<Expr> result_at);
/// Returns the accumulator of a scan whose core begins at the loop with index `start`. It is always
/// a separate buffer.
Accumulator accumulator_of_running_values(const StageNest& s, size_t start);

/// Conditions on the reduction loops outside of the loop with index `start`. Each combination of
/// their iterations is a block of the reduction. The first block starts from the neutral element,
/// and each later block continues from the partial sum that the block before it stored. For one
/// such loop k.0 in 0..4, `is_first` is k.0 <= 0, `is_later` is 1 <= k.0, `is_last` is 3 <= k.0,
/// and `is_earlier` is k.0 < 3. If there are no such loops, `any` is false, and the only block is
/// both the first and the last.
struct OuterBlocks {
  bool any = false;
  Expr is_first, is_later, is_last, is_earlier;
};
OuterBlocks blocks_outside(const StageNest& s, size_t start);

/// Invalid if partial sums would be kept in the result of an epilogue, and this result has another
/// type than the sums, such as f16 for sums of f32.
Status check_accumulation(const StageNest& s);
/// Checks a stage whose results are copied from shared memory (cache_result); any other stage
/// passes. Invalid if the results are not complete at the end of an iteration of the accumulator's
/// loop. The results are partial sums if the accumulator's loop or a loop outside of it reduces. A
/// task has only a part of the results if a loop inside of the accumulator's loop is parallel.
Status check_result_copy(const Nest& nest, const StageNest& s);

}  // namespace tw::schedules
