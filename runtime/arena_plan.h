// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plans the arena: the offsets of the intermediate tensors of a model in the memory of one call.
// Pure functions; thread-safe.

#include <cstdint>
#include <span>
#include <vector>

namespace tw::runtime {

/// One array of an arena: alive from step `first` to step `last`, both inclusive.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};
struct ArenaPlan {
  std::vector<int64_t> offsets;  ///< of each array, multiples of 64
  int64_t bytes = 0;             ///< size of the arena
};

/// Offsets at which arrays that are alive at the same step do not overlap. Places the largest array
/// first, each at the lowest gap that fits (greedy by size: Pisarchyk and Lee, Efficient Memory
/// Management for Deep Neural Net Inference, 2020); where the arena is then larger than the largest
/// sum of arrays alive at one step, which is a lower bound, tries other orders. Deterministic.
/// Requires: 0 <= bytes, first <= last, and a sum of all bytes that fits 63 bits.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes);

/// The largest sum of arrays alive at one step, each padded to a multiple of 64 bytes: no plan is
/// smaller. Requires: as plan_arena().
int64_t least_arena_bytes(std::span<const Lifetime> lifetimes);

}  // namespace tw::runtime
