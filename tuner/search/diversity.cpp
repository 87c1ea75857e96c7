// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/diversity.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cost_model/square_matrix.h"

namespace tw::tuner {

using cost_model::error_deviation;
using cost_model::ScaledFeatures;
using cost_model::SquareMatrix;
using cost_model::time_deviation;

namespace {

// Number of standard deviations by which the upper confidence bound is above the score. `bench
// --pretrain` prints the best of four picks for this value.
constexpr double confidence = 1;

/// Returns the covariance matrix of the errors of kernels. An error is a difference of natural
/// logarithms of speeds.
SquareMatrix covariance_of(const std::vector<ScaledFeatures>& kernels) {
  SquareMatrix matrix(kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i)
    for (size_t j = 0; j <= i; ++j)
      matrix.at(i, j) = matrix.at(j, i) =
          error_deviation * error_deviation * kernels[i].similarity(kernels[j]);
  return matrix;
}

/// Replaces the covariance matrix of the errors by their covariance matrix after the speed of
/// kernel `known` was measured.
void condition_on(size_t known, SquareMatrix& covariance) {
  std::vector<double> column;
  for (size_t i = 0; i < covariance.size; ++i) column.push_back(covariance.at(i, known));
  const double measured = column[known] + time_deviation * time_deviation;
  for (size_t i = 0; i < covariance.size; ++i)
    for (size_t j = 0; j < covariance.size; ++j)
      covariance.at(i, j) -= column[i] * column[j] / measured;
}

}  // namespace

std::vector<size_t> choose_diverse(std::span<const BatchCandidate> candidates,
                                   std::span<const ScaledFeatures> proposed, size_t count) {
  std::vector<ScaledFeatures> kernels;
  for (const BatchCandidate& candidate : candidates) kernels.push_back(candidate.features);
  kernels.insert(kernels.end(), proposed.begin(), proposed.end());
  SquareMatrix covariance = covariance_of(kernels);
  for (size_t i = candidates.size(); i < kernels.size(); ++i) condition_on(i, covariance);
  const auto upper_bound = [&](size_t i) {
    const double deviation = std::sqrt(std::max(0.0, covariance.at(i, i)));
    return candidates[i].score + confidence * deviation / std::numbers::ln2;
  };
  std::vector<size_t> chosen, left;
  for (size_t i = 0; i < candidates.size(); ++i) left.push_back(i);
  while (chosen.size() < count && !left.empty()) {
    const auto best = std::ranges::max_element(left, {}, upper_bound);
    chosen.push_back(*best);
    left.erase(best);
    condition_on(chosen.back(), covariance);
  }
  return chosen;
}

}  // namespace tw::tuner
