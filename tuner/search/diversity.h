// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the candidates of a batch that are worth a trial together. The errors of a cost model are
// similar for similar kernels: if a kernel is slower than predicted, so are kernels much like it.
// So only one of them is tried first.
//
// The errors are modelled by a Gaussian process over the features (cost_model/similarity.h). Each
// pick is the candidate with the highest upper confidence bound of its score, given that the errors
// of the picks before it will be known (GP-BUCB; Desautels, Krause and Burdick, JMLR 2014,
// "Parallelizing Exploration-Exploitation Tradeoffs in Gaussian Process Bandit Optimization").
// Pure; thread-safe.

#include <cstddef>
#include <span>
#include <vector>

#include "cost_model/similarity.h"

namespace tw::tuner {

/// A candidate for a place in a batch.
struct BatchCandidate {
  double score = 0;  ///< as of WorkloadModel::predict: log2 of the throughput
  cost_model::ScaledFeatures features;
};

/// The indices of up to `count` candidates, in the order in which they are worth a trial.
/// `proposed` has the kernels whose errors are known, or will be before: candidates that are
/// similar to these come later. Without any, the candidate with the highest score is the first.
/// Time grows with `count` times the square of the number of candidates and proposed kernels.
std::vector<size_t> choose_diverse(std::span<const BatchCandidate> candidates,
                                   std::span<const cost_model::ScaledFeatures> proposed,
                                   size_t count);

}  // namespace tw::tuner
