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

/// The index of the first loop of the core: the loops inside of which an accumulator is
/// initialised, added to and written to the result. It is the loop after that of cache_write, else
/// the outermost reduction loop. For loops m, n, k, where k reduces, the result is 2; with
/// `cache_write c m` it is 1.
size_t core_start(const StageNest& s);

/// The place where a reduction accumulates. `buffer` is either a buffer of its own, with one
/// element for each iteration of the spatial loops from loop number `start` inwards, or the tensor
/// of the result. `at` has the indices of the element to which an iteration adds its term.
struct Accumulator {
  Buffer buffer;
  std::vector<Expr> at;
};
/// The accumulator of a reduction whose core (core_start) begins at loop number `start`. It is a
/// buffer of its own only with cache_write. `result_at` has the indices of the element in the
/// result's tensor.
Accumulator accumulator_of_sums(const StageNest& s, size_t start, std::vector<Expr> result_at);
/// The accumulator of a scan; it is always a buffer of its own.
Accumulator accumulator_of_running_values(const StageNest& s, size_t start);

/// Conditions on the reduction loops outside of loop number `start`. Each combination of their
/// iterations is a block of the reduction. The first block starts from the neutral element, and
/// each later block continues from the partial sum that the block before it stored. For one such
/// loop k.0 in 0..4, `is_first` is k.0 <= 0, `is_later` is 1 <= k.0, `is_last` is 3 <= k.0, and
/// `is_earlier` is k.0 < 3. Without such loops `any` is false, and the only block is both the first
/// and the last.
struct OuterBlocks {
  bool any = false;
  Expr is_first, is_later, is_last, is_earlier;
};
OuterBlocks blocks_outside(const StageNest& s, size_t start);

/// Invalid if partial sums would be kept in the tensor of an epilogue whose type is not that of the
/// sums, such as f32 sums in a tensor of f16.
Status check_accumulation(const StageNest& s);
/// Invalid if the results of the stage are copied from shared memory (cache_result), but an
/// iteration of the accumulator's loop has only partial sums or only a part of the results.
Status check_result_copy(const Nest& nest, const StageNest& s);

}  // namespace tw::schedules
