// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measured kernels correct the times that are expected of others: a Gaussian process over the
// features models ln(measured time / ordering_time_of). Its covariance has two parts. Kernels with
// similar features have similar errors. And each resource of the machine may cost a factor more
// than thought, which lengthens a kernel by the share of its time that is spent there. Predictions
// of the workload's own trials, each without its measurement, scale all corrections by a factor
// from 0 to 1. Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), sections
// 2.2 and 5.4.2; docs/cost_model.md derives it. Values; thread-safe.
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

/// A kernel that was measured without a failure.
struct MeasuredKernel {
  std::span<const float> features;  ///< of extract_features; read by the constructor alone
  double throughput = 0;            ///< calls a second or the like; compared within the group
  uint64_t group = 0;               ///< the workload and device
  bool same_machine = true;         ///< measured on the machine that is predicted for
};

/// The order of the trials of one group, each as if it had not been measured.
struct LeaveOneOut {
  size_t trials = 0;
  /// Rank correlations with measured throughput, by ordering_time_of alone and with corrections;
  /// nullopt where there are fewer than three trials, or where all are alike.
  std::optional<double> before = {}, corrected = {};
};

/// Most kernels that corrections are learned from.
inline constexpr size_t most_kernels = 384;

class Corrections {
 public:
  /// No kernel is measured: no correction.
  Corrections() = default;
  /// Learns the corrections for kernels of `group`. Of more than most_kernels the last ones of this
  /// group count, and then the last ones of others. Time grows with the third power of their
  /// number.
  Corrections(std::span<const MeasuredKernel> kernels, uint64_t group);

  /// log2 of the factor by which the kernel is expected to take longer than ordering_time_of says,
  /// relative to others of its workload. Requires: a row of extract_features.
  double log2_factor(std::span<const float> features) const;
  const LeaveOneOut& leave_one_out() const { return leave_one_out_; }

 private:
  struct WeightedKernel {
    ScaledFeatures features;
    std::vector<float> shares;  ///< of its time, by resource
    bool is_own = true;         ///< of the group that is predicted
    double weight = 0;
  };
  static double covariance(const WeightedKernel& a, const WeightedKernel& b, bool is_same_group);
  SquareMatrix covariances_of(const std::vector<const MeasuredKernel*>& chosen) const;

  std::vector<WeightedKernel> kernels_;
  LeaveOneOut leave_one_out_;
};

}  // namespace tw::cost_model
