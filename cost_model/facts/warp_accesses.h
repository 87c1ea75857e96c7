// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory accesses of one warp. The addresses of all 32 lanes are evaluated together, for
// sampled iterations of the loops around the access. Plain values; pure functions.

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

/// One iteration of all levels, as the 32 lanes of a warp see it. `values` has, for each level, the
/// value of its variable in each lane. `active` tells which lanes are threads of the block.
struct WarpPoint {
  std::vector<LaneValues> values;
  std::array<bool, warp_threads> active{};
  int count() const;
};

/// Samples iterations of the levels for a warp: the first iteration, and a few random ones, which
/// are the same in each run. Variables of vector levels keep their first value. If there is no
/// thread level, only lane 0 is active.
std::vector<WarpPoint> sample_warps(const std::vector<Level>& levels);

/// Evaluates an expression in each lane; nullopt if the expression is not integer arithmetic over
/// the variables of `levels`, for example if it reads data.
std::optional<LaneValues> evaluate(const dsl::Expr& expr, const std::vector<Level>& levels,
                                   const WarpPoint& point);

/// Returns the number of different 32-byte sectors that the active lanes touch, if each lane
/// accesses `bytes` bytes at its address. For example, 32 adjacent f32 lie in 4 sectors.
int sectors(const LaneValues& addresses, int64_t bytes, const WarpPoint& point);

/// Returns the number of different addresses of the active lanes.
int different_addresses(const LaneValues& addresses, const WarpPoint& point);

/// Returns the number of cycles that shared memory takes if each active lane accesses `bytes` bytes
/// at its address. Each of the 32 banks serves one word of 4 bytes per cycle, to any number of
/// lanes. For example, 32 different words in one bank take 32 cycles.
int bank_cycles(const LaneValues& addresses, int64_t bytes, const WarpPoint& point);

}  // namespace tw::cost_model::facts
