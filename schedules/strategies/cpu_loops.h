// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that the strategies for CPUs share: sizes of tiles, the loops of a tile, tasks. Free
// functions; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/space/construction.h"

namespace tw::schedules {

/// Sizes of a register tile along an axis, up to `most`. A size is included if at most the share
/// `waste` of the work is wasted because the last tile is incomplete but takes the time of a whole
/// one.
std::vector<int64_t> tile_sizes(int64_t extent, int64_t most, double waste = 0.1);

/// The loops of an axis outside and inside of a tile.
struct TileLoops {
  Loops outer, inner;
};
/// Splits an axis into tiles of `factor` elements, and appends the loops to `loops`. An axis is not
/// split if the tile would be a single element or the whole axis.
void split_axis(Construction& c, const std::string& stage, const std::string& axis, int64_t factor,
                TileLoops& loops);

/// Computes the stage at the site; leaves the stage in its own phase if `inside` is null.
void compute_at(Construction& c, const std::string& stage, const Site* inside);
/// True if the epilogue of the stage stores a type other than that of the sum. The sum then needs
/// an accumulator of its own, declared in a loop that encloses the reduction.
bool stores_another_type(const ComputePlan& compute, const std::string& stage);
/// Makes the outermost `depth` of the loops parallel.
void parallelize(Construction& c, const std::string& stage, const Loops& outer, size_t depth);
/// The site at which producers of the stage are computed: its innermost parallel loop.
Site site_of(const Construction& c, const std::string& stage);

}  // namespace tw::schedules
