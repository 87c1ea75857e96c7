// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the candidates of a batch that are worth a trial together. The errors of a cost model are
// similar for similar kernels: if a kernel is slower than predicted, so are kernels much like it.
// So only one of them is tried first.
//
// The errors are modelled by a Gaussian process over the features. Each pick is the candidate with
// the highest upper confidence bound of its score, given that the errors of the picks before it
// will be known (GP-BUCB; Desautels, Krause and Burdick, JMLR 2014, "Parallelizing
// Exploration-Exploitation Tradeoffs in Gaussian Process Bandit Optimization"). Pure; thread-safe.

#include <cstddef>
#include <span>
#include <vector>

namespace tw::tuner {

/// A candidate for a place in a batch.
struct BatchCandidate {
  double score = 0;                 ///< as of CostModel::predict: higher is faster
  std::span<const float> features;  ///< of extract_features
};

/// The places of up to `count` candidates, in the order in which they are worth a trial. `proposed`
/// has the features of kernels whose errors will be known before: candidates that are similar to
/// these come later. Without any, the candidate with the highest score is the first. Time grows
/// with `count` times the square of the number of candidates and proposed kernels.
std::vector<size_t> choose_diverse(std::span<const BatchCandidate> candidates,
                                   std::span<const std::span<const float>> proposed, size_t count);

}  // namespace tw::tuner
