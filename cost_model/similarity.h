// SPDX-License-Identifier: Apache-2.0
#pragma once
// Similarity of two kernels by their features. Kernels with similar features have similar errors of
// their predicted times, so the similarity is a covariance function in the Gaussian process that
// models these errors (corrections.h). docs/cost_model.md derives the function. Values;
// thread-safe.

#include <span>
#include <vector>

namespace tw::cost_model {

/// Standard deviations of natural logarithms of times. error_deviation is the standard deviation of
/// the errors of predicted times among the kernels of one workload. time_deviation is that of the
/// noise of a measured time: 0.1 means that a measured time is off by some 10 %.
inline constexpr double error_deviation = 0.3, time_deviation = 0.1;

/// The features of a kernel. Each feature is divided by a difference that makes two kernels clearly
/// different: 1 for logarithms and counts, 0.15 for ratios, 4 for others.
class ScaledFeatures {
 public:
  /// Scales a row of extract_features(). The expected time, which is the last feature, is left out,
  /// because it depends on the others.
  explicit ScaledFeatures(std::span<const float> features);

  /// Returns the similarity of two kernels: 1 for equal rows, and nearly 0 for kernels that have
  /// little in common. It is exp(-d / 32), where d is the sum over all features of |x - y|, the
  /// difference of the scaled features. A difference above 3 counts as 3.
  double similarity(const ScaledFeatures& other) const;

 private:
  std::vector<float> scaled_;
};

}  // namespace tw::cost_model
