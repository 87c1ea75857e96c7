// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of the strategies for CPUs: sizes of tiles, the loops of a tile, tasks. Free
// functions; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/space/construction.h"

namespace tw::schedules {

/// Sizes for a register tile along an axis, up to `most`: those that waste at most this share of
/// the work, where the last tile counts as a whole one.
std::vector<int64_t> tile_sizes(int64_t extent, int64_t most, double waste = 0.1);

/// Loops of an axis outside of a tile, and inside.
struct TileLoops {
  Loops outer, inner;
};
/// Splits a tile of `factor` off the axis, where that is more than one element and not all.
void split_axis(Construction& c, const std::string& stage, const std::string& axis, int64_t factor,
                TileLoops& loops);

/// Computes the stage at the site, or in a phase of its own where that is nullptr.
void compute_at(Construction& c, const std::string& stage, const Site* inside);
/// True if the epilogue of the stage stores another type than the one that the stage sums in. The
/// sum then needs an accumulator of its own, inside of a loop around the reduction.
bool stores_another_type(const ComputePlan& compute, const std::string& stage);
/// The outermost `depth` of the loops become tasks.
void parallelize(Construction& c, const std::string& stage, const Loops& outer, size_t depth);
/// Producers of a stage are computed in its innermost loop of tasks.
Site site_of(const Construction& c, const std::string& stage);

}  // namespace tw::schedules
