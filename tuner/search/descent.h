// SPDX-License-Identifier: Apache-2.0
#pragma once
// Descends on a score: the point of a space that a model prefers before anything is measured. From
// each of several starts the values of one decision after the other are compared, the others kept,
// until no single change is better; then a few mutations, which change two decisions at once, are
// tried as a way on. Pure but for the score; deterministic in the random source.
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
  size_t samples = 0;  ///< random points, the best of which are starts
  /// The given points and the best samples, at most so many unless more are given.
  size_t starts = 1;
  size_t mutations = 0;  ///< tried where no single change is better
};

/// The best point by score of all that were looked at. Errors as check_not_stopped().
/// Requires: `given` is not empty.
Result<schedules::Point> descend(const schedules::Space& space,
                                 const std::vector<schedules::Point>& given, const Score& score,
                                 const Descent& descent, Random& random,
                                 const StopToken& stop = {});

}  // namespace tw::tuner
