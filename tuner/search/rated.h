// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that search strategies share: rating points by their predictions, and finding the
// algorithms from which no points are proposed. Private to tuner/search. Thread-safe.

#include <cstddef>
#include <vector>

#include "base/random.h"
#include "base/stop.h"
#include "schedules/space/space.h"
#include "tuner/search/search.h"

namespace tw::tuner {

/// Number of points that a search scores for each point that it proposes. Scoring a point takes
/// about 0.1 ms, building and measuring one about 50 ms. At least half of the points turn out to be
/// too large when they are lowered.
inline constexpr size_t pool_per_pick = 32;

struct Rated {
  schedules::Point point;
  Prediction prediction;
};

/// Scores the points, and returns those that are legal and new, in their order.
std::vector<Rated> rate(std::vector<schedules::Point> points, const Score& score);
/// Sorts the points by score, the best first. Points with equal scores keep their order.
void sort_by_score(std::vector<Rated>& points);
std::vector<schedules::Point> points_of(const std::vector<Rated>& rated);

std::vector<schedules::Point> random_pool(const schedules::Space& space, Random& random,
                                          size_t count);

/// Returns the points, or no points if the token has stopped. A search that was cut short would
/// propose other points in each run with the same seed.
std::vector<schedules::Point> whole(std::vector<schedules::Point> points, const StopToken& stop);

/// The conclusions from the trials so far about the algorithms of a space. Element i of each vector
/// is about the algorithm with index i.
struct Algorithms {
  /// True if no point of the algorithm is proposed, because at least two were tried and all of them
  /// failed. Before the first trial of any algorithm, also true if the algorithm is in doubt.
  std::vector<bool> left_alone;
  /// True if a proposal may have only one point of the algorithm: its expected error is close to
  /// the largest error that is allowed (is_in_doubt()), and none of its trials has succeeded yet.
  std::vector<bool> in_doubt;
};

/// Judges the algorithms by the trials in `history`. The direct algorithm, which has index 0, is
/// never left alone and never in doubt.
Algorithms judge_algorithms(const schedules::Space& space, const std::vector<Tried>& history);

/// Returns a score that gives Standing::Illegal for the points of each algorithm i with
/// left_alone[i], and the result of `score` for all other points. The space and `score` must
/// outlive the returned score.
Score without(const schedules::Space& space, std::vector<bool> left_alone, const Score& score);

}  // namespace tw::tuner
