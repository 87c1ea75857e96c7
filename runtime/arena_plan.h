// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the intermediate tensors of a model lie in the memory of one call. A pure function;
// thread-safe.

#include <cstdint>
#include <span>
#include <vector>

namespace tw::runtime {

/// One array of an arena: alive from step `first` to step `last`, both inclusive.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};
/// Offsets, multiples of 64, at which arrays that are alive at the same step do not overlap, and
/// the size of the arena. Largest first at the lowest gap that fits (greedy by size: Pisarchyk and
/// Lee, Efficient Memory Management for Deep Neural Net Inference, 2020), improved by search for
/// small models.
struct ArenaPlan {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes);

}  // namespace tw::runtime
