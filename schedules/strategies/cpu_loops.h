// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that the strategies for CPUs share. They choose sizes of tiles, split loops into tiles,
// and make loops parallel. Free functions; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/space/construction.h"

namespace tw::schedules {

/// Returns sizes of a register tile along an axis, from 1 to `most`. The last tile along the axis
/// takes the time of a whole tile even if it is incomplete. So a size is included only if at most
/// the share `waste` of the work is wasted. For an extent of 7 the sizes are 1 and 7. With a waste
/// of 0.2 they are 1, 2, 4 and 7, because tiles of 2 or 4 compute 8 elements.
std::vector<int64_t> tile_sizes(int64_t extent, int64_t most, double waste = 0.1);

/// The loops of tiled axes: `outer` are the loops over tiles, `inner` those over the elements of a
/// tile.
struct TileLoops {
  Loops outer, inner;
};
/// Splits an axis into tiles of `factor` elements, and appends the two loops to `loops`. If a tile
/// is a single element, the axis is not split, and its loop is appended to `outer`. If a tile is
/// the whole axis, the axis is not split, and its loop is appended to `inner`.
void split_axis(Construction& c, const std::string& stage, const std::string& axis, int64_t factor,
                TileLoops& loops);

/// Computes the stage at the site `inside`, or leaves it in its own phase if `inside` is null.
void compute_at(Construction& c, const std::string& stage, const Site* inside);
/// True if the epilogue of the stage stores another type than that of the sum. In this case the sum
/// needs an accumulator of its own, which is allocated in a loop around the reduction.
bool stores_another_type(const ComputePlan& compute, const std::string& stage);
/// Makes the first `depth` loops of `outer` parallel.
void parallelize(Construction& c, const std::string& stage, const Loops& outer, size_t depth);
/// Returns the site at which producers of the stage are computed: the stage's innermost parallel
/// loop. The site has no loop if no loop is parallel.
Site site_of(const Construction& c, const std::string& stage);

}  // namespace tw::schedules
