// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fitted model: the order before any trial (ordering_time_of), with the cost of each resource
// times a factor that measured kernels suggest. If the cost of a resource changes by a factor
// exp(c), the logarithm of a kernel's time changes by c times the share of the time spent on it, to
// first order. So the logarithms of the factors are the coefficients of a linear regression of
// measured time / that of before on these shares. A normal prior around 0 keeps a factor at 1 where
// no measurement speaks for another. docs/cost_model.md derives it. Values.
//
//   const Fit fit = fit_factors(trials);              // of any workloads on one machine
//   const double better = ordering_time_of(row) + fit.correction(row);

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cost_model/resources.h"

namespace tw::cost_model {

/// The factors: one of each resource, and one of the loss by imperfect overlap.
inline constexpr size_t factor_count = resource_count + 1;

/// A measured kernel.
struct FitTrial {
  std::span<const float> features;  ///< of extract_features
  double throughput = 0;            ///< calls a second or the like, as in a Sample
  uint64_t group = 0;               ///< the workload
};

struct Fit {
  std::array<double, factor_count> log_factors{};  ///< all 0: the time stands

  /// log2 of the fitted time over ordering_time_of. Requires: a row of extract_features.
  double correction(std::span<const float> features) const;
  /// Standard deviation of the correction against that of the average trial, by what the trials
  /// leave open. A factor that all resources share changes no order and counts nothing.
  double deviation(std::span<const float> features) const;

  std::array<double, factor_count> usual_shares{};  ///< mean of the trials
  /// Lower triangle of the Cholesky factor of the inverse of the factors' covariance, by rows.
  std::vector<double> precision_root;
};

/// The most probable factors. A workload's mean error is left out: only the order of its kernels
/// is meant. So a workload of one trial says nothing.
Fit fit_factors(std::span<const FitTrial> trials);

}  // namespace tw::cost_model
