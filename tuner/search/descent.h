// SPDX-License-Identifier: Apache-2.0
#pragma once
// Coordinate descent on a score: finds the point of a space that a model prefers, before anything
// is measured. It starts from several points. For one decision of the space after the other, it
// compares all values of the decision while the others stay fixed, and keeps the best value, until
// no single change improves the score. Then it tries a few random mutations, which change one or
// two decisions. If the best mutation improves the score, it continues from this mutation. Finally
// it makes further descents, each from a random perturbation of the best local optimum so far
// (iterated local search: Lourenço, Martin, Stützle, 2003). Only `score` may have side effects; the
// result depends on nothing but the arguments.
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
  /// Number of starting points. They are the points in `given`, then the best of the random
  /// samples. All points in `given` are used, even if there are more than `starts`.
  size_t starts = 1;
  size_t mutations = 0;      ///< number of mutations to try when no single change is better
  size_t perturbations = 0;  ///< number of descents from perturbations of the best local optimum
};

/// Returns up to `most` points: first the one with the highest score at which a descent ended, then
/// the others that were scored, highest score first. `given` has at least one point. All its points
/// are starting points (Descent::starts). Fails with the error of check_not_stopped() if the token
/// stops.
Result<std::vector<schedules::Point>> best_points(const schedules::Space& space,
                                                  const std::vector<schedules::Point>& given,
                                                  const Score& score, const Descent& descent,
                                                  Random& random, size_t most,
                                                  const StopToken& stop = {});

/// Returns the first of best_points().
Result<schedules::Point> descend(const schedules::Space& space,
                                 const std::vector<schedules::Point>& given, const Score& score,
                                 const Descent& descent, Random& random,
                                 const StopToken& stop = {});

}  // namespace tw::tuner
