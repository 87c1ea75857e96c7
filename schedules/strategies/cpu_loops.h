// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that the strategies for CPUs share: sizes of tiles, the loops of a tile, tasks. Free
// functions; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/space/construction.h"

namespace tw::schedules {

/// Sizes of a register tile along an axis, up to `most`. The last tile takes the time of a whole
/// one even if it is incomplete, so a size is included only if at most the share `waste` of the
/// work is wasted: for an extent of 7 the sizes are 1 and 7, and with a waste of 0.2 also 2 and 4,
/// whose tiles compute 8 elements.
std::vector<int64_t> tile_sizes(int64_t extent, int64_t most, double waste = 0.1);

/// The loops of tiled axes: those over tiles (outer), and those over the elements of a tile
/// (inner).
struct TileLoops {
  Loops outer, inner;
};
/// Splits an axis into tiles of `factor` elements, and appends the two loops to `loops`. If the
/// tile is a single element, the axis is not split, and its loop is an outer one. If the tile is
/// the whole axis, the axis is not split, and its loop is an inner one.
void split_axis(Construction& c, const std::string& stage, const std::string& axis, int64_t factor,
                TileLoops& loops);

/// Computes the stage at the site `inside`, or leaves it in its own phase if `inside` is null.
void compute_at(Construction& c, const std::string& stage, const Site* inside);
/// True if the epilogue of the stage stores another type than that of the sum. The sum then needs
/// an accumulator of its own, declared in a loop around the reduction.
bool stores_another_type(const ComputePlan& compute, const std::string& stage);
/// Makes the first `depth` loops of `outer` parallel.
void parallelize(Construction& c, const std::string& stage, const Loops& outer, size_t depth);
/// The site at which producers of the stage are computed: its innermost parallel loop; empty if no
/// loop is parallel.
Site site_of(const Construction& c, const std::string& stage);

}  // namespace tw::schedules
