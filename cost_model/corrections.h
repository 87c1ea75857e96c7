// SPDX-License-Identifier: Apache-2.0
#pragma once
// Corrections of expected times, learned from measured kernels: a Gaussian process over the
// features models ln(measured time / ordering_time_of()). Its covariance has two parts. First,
// kernels with similar features have similar errors. Second, each resource of the machine may be
// slower by a factor than the model assumes, which lengthens a kernel by the share of its time that
// is spent on the resource. All corrections are scaled by a factor from 0 to 1, which is chosen by
// predicting each of the workload's own trials without its measurement (leave-one-out). See
// Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), sections 2.2 and 5.4.2;
// docs/cost_model.md derives the corrections. Values; thread-safe.
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
  /// Row of extract_features(); only the constructor of Corrections reads it.
  std::span<const float> features;
  /// Speed in any unit, such as calls per second; compared only within the group.
  double throughput = 0;
  uint64_t group = 0;        ///< identifies the workload and device
  bool same_machine = true;  ///< true if measured on the machine for which kernels are predicted
};

/// The quality of the order in which a model puts the trials of one group, when it predicts each
/// trial from the measurements of the others (leave-one-out).
struct LeaveOneOut {
  size_t trials = 0;
  /// Rank correlations with the measured throughput: of ordering_time_of() alone, and with
  /// corrections. nullopt if there are fewer than three trials or all are alike.
  std::optional<double> before = {}, corrected = {};
};

/// Limit on the kernels from which corrections are learned.
inline constexpr size_t most_kernels = 384;

class Corrections {
 public:
  /// Corrections without measured kernels: all are 0.
  Corrections() = default;
  /// Learns the corrections for kernels of `group`. If there are more than most_kernels, it uses
  /// the last ones of the group, and then the last ones of other groups. Its time grows with the
  /// cube of the number of kernels.
  Corrections(std::span<const MeasuredKernel> kernels, uint64_t group);

  /// Returns log2 of the factor by which the kernel is expected to take longer than
  /// ordering_time_of() says, relative to other kernels of its workload. Requires: a row of
  /// extract_features().
  double log2_factor(std::span<const float> features) const;
  const LeaveOneOut& leave_one_out() const { return leave_one_out_; }

 private:
  struct WeightedKernel {
    ScaledFeatures features;
    std::vector<float> shares;  ///< shares of its time, by resource
    bool is_own = true;         ///< true if of the group that is predicted
    double weight = 0;
  };
  static double covariance(const WeightedKernel& a, const WeightedKernel& b, bool is_same_group);
  SquareMatrix covariances_of(const std::vector<const MeasuredKernel*>& chosen) const;

  std::vector<WeightedKernel> kernels_;
  LeaveOneOut leave_one_out_;
};

}  // namespace tw::cost_model
