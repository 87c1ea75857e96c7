// SPDX-License-Identifier: Apache-2.0
#pragma once
// Similarity of two kernels by their features. It is the covariance function of a Gaussian process
// for the errors of expected times: similar kernels have similar errors. docs/cost_model.md derives
// the function. Values; thread-safe.

#include <span>
#include <vector>

namespace tw::cost_model {

/// Standard deviations of the natural logarithm of times: of the errors of expected times among the
/// kernels of a workload, and of the noise of a measured time.
inline constexpr double error_deviation = 0.3, time_deviation = 0.1;

/// Features of a kernel, each divided by the difference at which two kernels count as unlike.
class ScaledFeatures {
 public:
  /// Scales a row of extract_features(). The expected time, which is the last feature, is left out,
  /// because it depends on the others.
  explicit ScaledFeatures(std::span<const float> features);

  /// Returns 1 for equal rows, and nearly 0 for kernels that have little in common: exp(-d), where
  /// d is the sum of the capped differences of the features.
  double similarity(const ScaledFeatures& other) const;

 private:
  std::vector<float> scaled_;
};

}  // namespace tw::cost_model
