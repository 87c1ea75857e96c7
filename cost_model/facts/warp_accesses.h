// SPDX-License-Identifier: Apache-2.0
#pragma once
// The accesses of one warp. The addresses of its 32 lanes are evaluated side by side, at sampled
// points of the loops around. Values; pure functions.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "cost_model/facts/iteration_space.h"
#include "dsl/expr.h"

namespace tw::cost_model::facts {

inline constexpr double sector_bytes = 32;  ///< unit in which L1 and L2 of GPUs fetch
inline constexpr int shared_banks = 32;     ///< banks of 4 bytes; each serves one access per cycle

using LaneValues = std::array<int64_t, warp_threads>;

/// The value of each level in each lane, and the lanes that are threads of the block.
struct WarpPoint {
  std::vector<LaneValues> values;
  std::array<bool, warp_threads> active{};
  int count() const;
};

/// Samples points of the levels for a warp: the first point, and others that are always the same
/// for the same levels. Vector levels stand at their beginning. Without a thread level only lane 0
/// is active.
std::vector<WarpPoint> sample_warps(const std::vector<Level>& levels);

/// Evaluates the expression in each lane. nullopt if it is not integer arithmetic over the levels.
std::optional<LaneValues> evaluate(const dsl::Expr& expr, const std::vector<Level>& levels,
                                   const WarpPoint& point);

/// Returns the number of 32-byte sectors that the active lanes touch by accesses of `bytes` bytes
/// at these addresses.
int sectors(const LaneValues& addresses, int64_t bytes, const WarpPoint& point);

/// Returns the least number of cycles that shared memory takes for these accesses: a bank serves
/// one word of 4 bytes per cycle, to any number of lanes.
int bank_cycles(const LaneValues& addresses, int64_t bytes, const WarpPoint& point);

}  // namespace tw::cost_model::facts
