// SPDX-License-Identifier: Apache-2.0
#pragma once
// Corrections of expected times, learned from measured kernels. A Gaussian process over the
// features models the error of a predicted time: ln(measured time / ordering_time_of()). The
// covariance of the errors of two kernels has two parts. The first part is due to the fact that
// kernels with similar features have similar errors. The second part is due to resources of the
// machine that are slower than the model assumes. For example, if loads are 10 % slower, a kernel
// that spends half of its time on loads takes 5 % longer.
//
// All corrections are scaled by a factor from 0 to 1. The factor is chosen by predicting each trial
// of the workload from the other trials (leave-one-out). See Rasmussen and Williams, "Gaussian
// Processes for Machine Learning" (2006), sections 2.2 and 5.4.2; docs/cost_model.md derives the
// corrections. Values; thread-safe.
//
//   const Corrections corrections(kernels, group);
//   const double log2_ns = ordering_time_of(row) + corrections.log2_factor(row);

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cost_model/similarity.h"
#include "cost_model/square_matrix.h"

namespace tw::cost_model {

/// A kernel that was measured successfully.
struct MeasuredKernel {
  /// Row of extract_features(). Only the constructor of Corrections reads the row, so the numbers
  /// may be destroyed after it.
  std::span<const float> features;
  /// Speed in any unit, such as calls per second. It is compared only with kernels of the same
  /// group.
  double throughput = 0;
  uint64_t group = 0;        ///< identifies the workload and device
  bool same_machine = true;  ///< true if measured on the machine for which kernels are predicted
};

/// The quality of a predicted order of the trials of one group. Each trial is predicted from the
/// measurements of the other trials (leave-one-out).
struct LeaveOneOut {
  size_t trials = 0;
  /// Rank correlations between predicted and measured times; 1 means the same order. `before` is
  /// that of ordering_time_of() alone, and `corrected` that of the corrected times. nullopt if
  /// there are fewer than three trials, or if all predicted or all measured times are equal.
  std::optional<double> before = {}, corrected = {};
};

/// Limit on the number of kernels from which corrections are learned.
inline constexpr size_t most_kernels = 384;

class Corrections {
 public:
  /// Makes corrections without measured kernels: log2_factor() is always 0.
  Corrections() = default;
  /// Learns the corrections for kernels of `group`. If there are more than most_kernels kernels, it
  /// uses the last ones of the group and, if these are fewer than most_kernels, the last ones of
  /// other groups. The time of learning grows with the cube of the number of kernels that are used.
  Corrections(std::span<const MeasuredKernel> kernels, uint64_t group);

  /// Returns log2 of the factor by which a kernel of the group is expected to take longer than
  /// ordering_time_of() says; negative if it is expected to be faster. Only differences between
  /// kernels of the group have a meaning. Requires: a row of extract_features().
  double log2_factor(std::span<const float> features) const;
  const LeaveOneOut& leave_one_out() const { return leave_one_out_; }

 private:
  struct WeightedKernel {
    ScaledFeatures features;
    std::vector<float> shares;  ///< shares of the kernel's time, by resource
    bool is_own = true;         ///< true if the kernel is of the group that is predicted
    double weight = 0;
  };
  static double covariance(const WeightedKernel& a, const WeightedKernel& b, bool is_same_group);
  SquareMatrix covariances_of(const std::vector<const MeasuredKernel*>& chosen) const;

  std::vector<WeightedKernel> kernels_;
  LeaveOneOut leave_one_out_;
};

}  // namespace tw::cost_model
