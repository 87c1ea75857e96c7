// SPDX-License-Identifier: Apache-2.0
#include "cost_model/fit.h"

#include <cmath>
#include <map>
#include <numbers>

#include "cost_model/features.h"

namespace tw::cost_model {
namespace {

// Standard deviations of what is not known, of natural logarithms: of a factor before any
// measurement, and of a kernel's time given the factors. Documented ports and bandwidths are rarely
// off by more than a third, and neither are the times of kernels.
constexpr double factor_deviation = 0.3, time_deviation = 0.3;

using Vector = std::array<double, factor_count>;

/// Symmetric, positive definite; of its Cholesky factor the lower triangle counts.
struct Square {
  std::vector<double> values = std::vector<double>(factor_count * factor_count, 0.0);
  double& at(size_t row, size_t column) { return values[row * factor_count + column]; }
};

Vector shares_of(std::span<const float> features) {
  Vector shares;
  const std::span<const float> spent = spent_of(features);
  for (size_t i = 0; i < factor_count; ++i) shares[i] = spent[i];
  return shares;
}

/// The lower triangle L of L Lᵀ = matrix.
Square cholesky(Square matrix) {
  for (size_t i = 0; i < factor_count; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = matrix.at(i, j);
      for (size_t k = 0; k < j; ++k) sum -= matrix.at(i, k) * matrix.at(j, k);
      matrix.at(i, j) = i == j ? std::sqrt(sum) : sum / matrix.at(j, j);
    }
  return matrix;
}

/// x of L x = b.
Vector solve_lower(std::span<const double> lower, Vector b) {
  for (size_t i = 0; i < factor_count; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= lower[i * factor_count + k] * b[k];
    b[i] /= lower[i * factor_count + i];
  }
  return b;
}

/// x of Lᵀ x = b.
Vector solve_upper(std::span<const double> lower, Vector b) {
  for (size_t i = factor_count; i-- > 0;) {
    for (size_t k = i + 1; k < factor_count; ++k) b[i] -= lower[k * factor_count + i] * b[k];
    b[i] /= lower[i * factor_count + i];
  }
  return b;
}

/// Shares of one kernel, and the logarithm of measured / analytic time; or means of them.
struct Observation {
  Vector shares{};
  double error = 0;
};

Observation observe(const FitTrial& trial) {
  return {shares_of(trial.features),
          -std::log(trial.throughput) - ordering_time_of(trial.features) * std::numbers::ln2};
}

/// By workload.
std::map<uint64_t, Observation> means(std::span<const FitTrial> trials) {
  std::map<uint64_t, Observation> sums;
  std::map<uint64_t, double> counts;
  for (const FitTrial& trial : trials) {
    const Observation seen = observe(trial);
    Observation& sum = sums[trial.group];
    for (size_t i = 0; i < factor_count; ++i) sum.shares[i] += seen.shares[i];
    sum.error += seen.error;
    ++counts[trial.group];
  }
  for (auto& [group, sum] : sums) {
    for (double& share : sum.shares) share /= counts[group];
    sum.error /= counts[group];
  }
  return sums;
}

}  // namespace

double Fit::correction(std::span<const float> features) const {
  const std::span<const float> spent = spent_of(features);
  double sum = 0;
  for (size_t i = 0; i < factor_count; ++i) sum += log_factors[i] * spent[i];
  return sum / std::numbers::ln2;
}

double Fit::deviation(std::span<const float> features) const {
  if (precision_root.empty()) return 0;
  Vector apart = shares_of(features);
  for (size_t i = 0; i < factor_count; ++i) apart[i] -= usual_shares[i];
  double variance = 0;
  for (const double x : solve_lower(precision_root, apart)) variance += x * x;
  return std::sqrt(variance) / std::numbers::ln2;
}

Fit fit_factors(std::span<const FitTrial> trials) {
  constexpr double noise = 1 / (time_deviation * time_deviation);
  Square precision;
  for (size_t i = 0; i < factor_count; ++i)
    precision.at(i, i) = 1 / (factor_deviation * factor_deviation);
  Vector evidence{};
  const std::map<uint64_t, Observation> mean = means(trials);
  Fit fit;
  for (const FitTrial& trial : trials) {
    Observation seen = observe(trial);
    for (size_t i = 0; i < factor_count; ++i)
      fit.usual_shares[i] += seen.shares[i] / static_cast<double>(trials.size());
    const Observation& usual = mean.at(trial.group);
    seen.error -= usual.error;
    for (size_t i = 0; i < factor_count; ++i) seen.shares[i] -= usual.shares[i];
    for (size_t i = 0; i < factor_count; ++i) {
      evidence[i] += noise * seen.shares[i] * seen.error;
      for (size_t j = 0; j <= i; ++j) precision.at(i, j) += noise * seen.shares[i] * seen.shares[j];
    }
  }
  fit.precision_root = cholesky(std::move(precision)).values;
  fit.log_factors = solve_upper(fit.precision_root, solve_lower(fit.precision_root, evidence));
  return fit;
}

}  // namespace tw::cost_model
