// SPDX-License-Identifier: Apache-2.0
#pragma once
// Points with their predictions, and the algorithms of a space that a search leaves alone: what
// search strategies share. Private to tuner/search. Free functions; thread-safe.

#include <cstddef>
#include <vector>

#include "base/random.h"
#include "base/stop.h"
#include "schedules/space/space.h"
#include "tuner/search/search.h"

namespace tw::tuner {

/// Points that a search looks at for each pick. Scoring a point costs about 0.1 ms, building and
/// measuring one about fifty, and half of the points or more are found too large while they are
/// lowered.
inline constexpr size_t pool_per_pick = 32;

struct Rated {
  schedules::Point point;
  Prediction prediction;
};

/// Those of the points that are legal and new.
std::vector<Rated> rate(std::vector<schedules::Point> points, const Score& score);
/// Best first; stable.
void sort_by_score(std::vector<Rated>& points);
std::vector<schedules::Point> points_of(const std::vector<Rated>& rated);

std::vector<schedules::Point> random_pool(const schedules::Space& space, Random& random,
                                          size_t count);

/// The points, or none where the token stopped: a search that was cut short makes another choice.
std::vector<schedules::Point> whole(std::vector<schedules::Point> points, const StopToken& stop);

/// Verdicts of the trials so far on each algorithm of a space.
struct Algorithms {
  /// No point of it is proposed: several were tried, and all of them failed. Before anything was
  /// tried also one whose expected error is near the limit.
  std::vector<bool> left_alone;
  /// A proposal has one point of it at most: its expected error is near the limit, and no trial of
  /// it has worked yet.
  std::vector<bool> in_doubt;
};

/// The direct algorithm is neither left alone nor in doubt.
Algorithms judge_algorithms(const schedules::Space& space, const std::vector<Tried>& history);

/// The score, which calls all points of algorithms that are left alone illegal. The space and the
/// score must outlive it.
Score without(const schedules::Space& space, std::vector<bool> left_alone, const Score& score);

}  // namespace tw::tuner
