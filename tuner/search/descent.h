// SPDX-License-Identifier: Apache-2.0
#pragma once
// Coordinate descent on a score: finds the point of a space that a model prefers, before anything
// is measured. From each of several starting points it goes through the decisions. It compares the
// values of one decision while the others stay fixed, until no single change improves the score.
// Then it tries a few mutations, each of which changes two decisions at once, and goes on from a
// better one. Pure but for the score; deterministic in the random source.
//
//   const Descent descent{.samples = 64, .starts = 4};
//   const Point best = descend(space, {space.default_point()}, score, descent, random);

#include <cstddef>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/stop.h"
#include "schedules/space/space.h"
#include "tuner/search/search.h"

namespace tw::tuner {

struct Descent {
  size_t samples = 0;  ///< number of random points, the best of which become starting points
  /// Number of starting points: the given points, then the best samples. All given points are used,
  /// even if there are more of them.
  size_t starts = 1;
  size_t mutations = 0;  ///< number of mutations to try when no single change is better
};

/// The point with the highest score of all points that were scored. Errors as check_not_stopped().
/// Requires: `given` is not empty.
Result<schedules::Point> descend(const schedules::Space& space,
                                 const std::vector<schedules::Point>& given, const Score& score,
                                 const Descent& descent, Random& random,
                                 const StopToken& stop = {});

}  // namespace tw::tuner
