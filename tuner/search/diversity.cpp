// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/diversity.h"

#include <algorithm>
#include <cmath>

#include "cost_model/cost_model.h"

namespace tw::tuner {
namespace {

// Standard deviation of the errors of expected times among kernels of one workload, and of measured
// times, in factors of two. `bench --pretrain` prints what the best of four picks is with them.
constexpr double prior_deviation = 0.5, noise_deviation = 0.15;
// Deviations that the upper confidence bound is above the score.
constexpr double confidence = 0.5;
// Squared distance at which errors are correlated by 1 / e, over the median squared distance.
constexpr double squared_length_scale = 0.5;

struct SquareMatrix {
  explicit SquareMatrix(size_t rows) : size(rows), values(rows * rows, 0.0) {}
  double& at(size_t row, size_t column) { return values[row * size + column]; }
  size_t size;
  std::vector<double> values;
};

using Rows = std::vector<std::span<const float>>;

/// Adds to the squared distances those by one feature, in its standard deviations.
void add_distances(const Rows& rows, size_t feature, SquareMatrix& distances) {
  const auto count = static_cast<double>(rows.size());
  double mean = 0, variance = 0;
  for (const auto& row : rows) mean += row[feature] / count;
  for (const auto& row : rows) variance += (row[feature] - mean) * (row[feature] - mean) / count;
  if (!std::isfinite(variance) || variance < 1e-6) return;
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const double apart = rows[i][feature] - rows[j][feature];
      distances.at(i, j) += apart * apart / variance;
    }
}

/// The covariance of the errors of kernels with these features.
SquareMatrix covariance_of(const Rows& rows) {
  SquareMatrix matrix(rows.size());
  for (size_t feature = 0; feature < rows[0].size(); ++feature)
    add_distances(rows, feature, matrix);
  std::vector<double> distances;
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < i; ++j) distances.push_back(matrix.at(i, j));
  double median = 0;
  if (!distances.empty()) {
    const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
    std::ranges::nth_element(distances, middle);
    median = *middle;
  }
  const double scale = squared_length_scale * std::max(median, 1e-9);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j <= i; ++j)
      matrix.at(i, j) = matrix.at(j, i) =
          prior_deviation * prior_deviation * std::exp(-matrix.at(i, j) / scale);
  return matrix;
}

/// Makes the covariance that of errors given a measurement of kernel `known`.
void condition_on(size_t known, SquareMatrix& covariance) {
  std::vector<double> column;
  for (size_t i = 0; i < covariance.size; ++i) column.push_back(covariance.at(i, known));
  const double measured = column[known] + noise_deviation * noise_deviation;
  for (size_t i = 0; i < covariance.size; ++i)
    for (size_t j = 0; j < covariance.size; ++j)
      covariance.at(i, j) -= column[i] * column[j] / measured;
}

}  // namespace

std::vector<size_t> choose_diverse(std::span<const BatchCandidate> candidates,
                                   std::span<const std::span<const float>> proposed, size_t count) {
  std::vector<size_t> chosen;
  if (candidates.empty()) return chosen;
  Rows rows;
  for (const BatchCandidate& candidate : candidates) rows.push_back(candidate.features);
  rows.insert(rows.end(), proposed.begin(), proposed.end());
  SquareMatrix covariance = covariance_of(rows);
  for (size_t i = candidates.size(); i < rows.size(); ++i) condition_on(i, covariance);
  const auto upper_bound = [&](size_t i) {
    const double deviation = std::sqrt(std::max(0.0, covariance.at(i, i)));
    return candidates[i].score + cost_model::score_of_doubling * confidence * deviation;
  };
  std::vector<size_t> left;
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
