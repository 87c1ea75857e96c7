// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lanes of one warp, evaluated side by side: which addresses a warp touches is found by looking
// at all 32 of them at sampled points of the loops around. Values; pure functions.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "cost_model/facts/iteration_space.h"
#include "dsl/expr.h"

namespace tw::cost_model::facts {

inline constexpr double sector_bytes = 32;  ///< what L1 and L2 of GPUs fetch by
inline constexpr int shared_banks = 32;     ///< of 4 bytes each, one access a cycle each

using LaneValues = std::array<int64_t, warp_threads>;

/// A value of each level in each lane, and which lanes are threads at all.
struct WarpPoint {
  std::vector<LaneValues> values;
  std::array<bool, warp_threads> active{};
  int count() const;
};

/// The first, and others that are always the same for the same levels. Vector levels stand at their
/// beginning; without a thread level only lane 0 is active.
std::vector<WarpPoint> sample_warps(const std::vector<Level>& levels);

/// Nothing for what is not integer arithmetic over the levels.
std::optional<LaneValues> evaluate(const dsl::Expr& expr, const std::vector<Level>& levels,
                                   const WarpPoint& point);

/// 32-byte sectors that a warp's accesses of `bytes` at these addresses touch.
int sectors(const LaneValues& addresses, int64_t bytes, const WarpPoint& point);

/// Cycles that shared memory takes for them at least: a bank serves one word of 4 bytes a cycle, to
/// any number of lanes.
int bank_cycles(const LaneValues& addresses, int64_t bytes, const WarpPoint& point);

}  // namespace tw::cost_model::facts
