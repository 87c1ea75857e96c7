// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the candidates of a batch so that they differ. The errors of a cost model are similar for
// similar kernels: if a kernel is slower than predicted, similar kernels are slower than predicted
// too. So only one of several similar kernels is tried first.
//
// The errors are modelled by a Gaussian process over the features (cost_model/similarity.h). Each
// pick is the candidate with the highest upper confidence bound of its score, where the errors of
// earlier picks count as known (GP-BUCB; Desautels, Krause and Burdick, JMLR 2014, "Parallelizing
// Exploration-Exploitation Tradeoffs in Gaussian Process Bandit Optimization"). Pure; thread-safe.

#include <cstddef>
#include <span>
#include <vector>

#include "cost_model/similarity.h"

namespace tw::tuner {

/// A candidate that may be chosen for a batch.
struct BatchCandidate {
  double score = 0;  ///< log2 of the predicted throughput, as WorkloadModel::predict() returns it
  cost_model::ScaledFeatures features;
};

/// Returns the indices of up to `count` candidates, the most worthwhile trial first. `proposed` has
/// kernels that were proposed before. Candidates that are similar to a proposed kernel are later in
/// the order, because the error of the proposed kernel is known already or will be known before
/// theirs. If `proposed` is empty, the first index is that of the candidate with the highest score.
/// The time grows with `count` times the square of the number of candidates and proposed kernels.
std::vector<size_t> choose_diverse(std::span<const BatchCandidate> candidates,
                                   std::span<const cost_model::ScaledFeatures> proposed,
                                   size_t count);

}  // namespace tw::tuner
