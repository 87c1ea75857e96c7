// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plans the arena of a model. The arena is the working memory of one call, in which each
// intermediate tensor gets an offset. Pure functions; thread-safe.

#include <cstdint>
#include <span>
#include <vector>

namespace tw::runtime {

/// Size and lifetime of one array in an arena. The array is alive from step `first` to step `last`,
/// both inclusive.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};
struct ArenaPlan {
  /// Offset of each array in bytes, a multiple of 64, in the order of the lifetimes.
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  ///< size of the arena
};

/// Assigns each array an offset such that arrays that are alive at the same step do not overlap.
/// Places the arrays from the largest to the smallest, each in the lowest gap that fits (greedy by
/// size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). If
/// the arena is then larger than least_arena_bytes(), it tries other orders. Deterministic.
/// Requires: 0 <= bytes, first <= last, and a sum of all bytes that fits 63 bits.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes);

/// Returns a lower bound on the size in bytes of any plan. For each step, the sizes of the arrays
/// that are alive are added, each rounded up to a multiple of 64; the bound is the largest of these
/// sums. Requires the same as plan_arena().
int64_t least_arena_bytes(std::span<const Lifetime> lifetimes);

}  // namespace tw::runtime
