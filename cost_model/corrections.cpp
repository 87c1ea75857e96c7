// SPDX-License-Identifier: Apache-2.0
#include "cost_model/corrections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "cost_model/features.h"
#include "cost_model/spearman.h"

namespace tw::cost_model {
namespace {

// Standard deviations of natural logarithms. factor_deviation is that of the factor by which a
// resource is slower than the model assumes. group_deviation is that of the error that all kernels
// of a workload share. docs/cost_model.md reports how well trials are ordered with these values.
constexpr double factor_deviation = 0.1, group_deviation = 2;
// The factor that scales all corrections is computed from the trials and from imaginary trials in
// which each correction equals the error. prior_agreement is the sum of the squares of these
// imaginary corrections, as natural logarithms. It keeps the factor near 1 while there are few
// trials.
constexpr double prior_agreement = 0.2;
constexpr size_t least_judged = 3;
// Factor by which the similarity of two kernels is multiplied if they are of different groups.
constexpr double alike_across_groups = 0.25;

template <typename T>
double dot(std::span<const T> a, std::span<const T> b) {
  // Four partial sums are used, because compilers do not reorder additions of floats.
  std::array<double, 4> sums{};
  size_t i = 0;
  for (; i + sums.size() <= a.size(); i += sums.size())
    for (size_t lane = 0; lane < sums.size(); ++lane)
      sums[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
  for (; i < a.size(); ++i) sums[0] += static_cast<double>(a[i]) * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

/// Returns the lower triangular L with L Lᵀ = matrix. Reads only the lower triangle of the matrix.
SquareMatrix cholesky(SquareMatrix matrix) {
  for (size_t i = 0; i < matrix.size; ++i) {
    const std::span<double> row = matrix.row(i);
    for (size_t j = 0; j <= i; ++j) {
      const std::span<const double> other = matrix.row(j);
      const double rest = row[j] - dot<double>(row.first(j), other.first(j));
      row[j] = i == j ? std::sqrt(rest) : rest / other[j];
    }
  }
  return matrix;
}

/// Returns the inverse of a lower triangular matrix, which is lower triangular too.
SquareMatrix inverse_of(SquareMatrix lower) {
  SquareMatrix inverse(lower.size);
  for (size_t i = 0; i < lower.size; ++i) {
    const std::span<const double> row = lower.row(i);
    const std::span<double> result = inverse.row(i);
    result[i] = 1;
    for (size_t k = 0; k < i; ++k) {
      const std::span<const double> done = inverse.row(k);
      for (size_t j = 0; j <= k; ++j) result[j] -= row[k] * done[j];
    }
    for (size_t j = 0; j <= i; ++j) result[j] /= row[i];
  }
  return inverse;
}

/// Returns the kernels from which the corrections for a group are learned: first those of the
/// group, then those of other groups, each from the last to the first.
std::vector<const MeasuredKernel*> chosen_from(std::span<const MeasuredKernel> kernels,
                                               uint64_t group) {
  std::vector<const MeasuredKernel*> chosen;
  for (const bool own : {true, false})
    for (size_t i = kernels.size(); i-- > 0 && chosen.size() < most_kernels;)
      if ((kernels[i].group == group) == own) chosen.push_back(&kernels[i]);
  return chosen;
}

/// Returns ln(measured time / ordering time) of each kernel, less the mean of these numbers over
/// the kernel's group. The mean is subtracted because throughputs may be in any unit, and because
/// corrections compare only kernels of one group.
std::vector<double> errors_of(const std::vector<const MeasuredKernel*>& kernels) {
  std::map<uint64_t, double> sums, counts;
  std::vector<double> errors;
  for (const MeasuredKernel* kernel : kernels) {
    errors.push_back(-std::log(kernel->throughput) -
                     ordering_time_of(kernel->features) * std::numbers::ln2);
    sums[kernel->group] += errors.back();
    ++counts[kernel->group];
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    const uint64_t group = kernels[i]->group;
    errors[i] -= sums[group] / counts[group];
  }
  return errors;
}

struct Solution {
  std::vector<double> weights;     ///< covariances⁻¹ · errors
  std::vector<double> precisions;  ///< the diagonal of covariances⁻¹
};

Solution solve(SquareMatrix covariances, std::span<const double> errors) {
  const size_t count = covariances.size;
  SquareMatrix inverse_root = inverse_of(cholesky(std::move(covariances)));
  Solution solution{std::vector<double>(count, 0.0), std::vector<double>(count, 0.0)};
  for (size_t i = 0; i < count; ++i) {
    const std::span<const double> row = inverse_root.row(i);
    const double part = dot<double>(row, errors);
    for (size_t j = 0; j <= i; ++j) {
      solution.weights[j] += row[j] * part;
      solution.precisions[j] += row[j] * row[j];
    }
  }
  return solution;
}

/// The measured kernels of one group, each predicted from all other kernels. Times are natural
/// logarithms. The correction and the error of a kernel are relative to the mean error of the
/// group's other kernels.
struct LeftOut {
  std::vector<double> times, measured;  ///< ordering times; measured times up to a constant
  std::vector<double> corrections, errors;
};

/// Predicts each of the first `count` kernels, which are all kernels of their group, from all other
/// kernels.
LeftOut leave_out(size_t count, const std::vector<const MeasuredKernel*>& kernels,
                  const std::vector<double>& errors, const Solution& solution) {
  LeftOut left_out;
  for (size_t i = 0; i < count; ++i) {
    // The mean error of the group's other kernels: the errors of a group add up to 0.
    const double others = -errors[i] / std::max(1.0, static_cast<double>(count) - 1);
    left_out.times.push_back(ordering_time_of(kernels[i]->features) * std::numbers::ln2);
    left_out.measured.push_back(-std::log(kernels[i]->throughput));
    left_out.errors.push_back(errors[i] - others);
    left_out.corrections.push_back(errors[i] - solution.weights[i] / solution.precisions[i] -
                                   others);
  }
  return left_out;
}

/// Returns the factor from 0 to 1 by which the corrections come nearest to the errors. Returns 1
/// for fewer than two trials, which cannot be compared.
double shrinkage_of(const LeftOut& left_out) {
  if (left_out.times.size() < 2) return 1;
  double agreed = prior_agreement, all = prior_agreement;
  for (size_t i = 0; i < left_out.times.size(); ++i) {
    agreed += left_out.corrections[i] * left_out.errors[i];
    all += left_out.corrections[i] * left_out.corrections[i];
  }
  return std::clamp(agreed / all, 0.0, 1.0);
}

LeaveOneOut judge(const LeftOut& left_out, double shrinkage) {
  LeaveOneOut judged{.trials = left_out.times.size()};
  if (judged.trials < least_judged) return judged;
  std::vector<double> corrected;
  for (size_t i = 0; i < judged.trials; ++i)
    corrected.push_back(left_out.times[i] + shrinkage * left_out.corrections[i]);
  judged.before = spearman(left_out.times, left_out.measured);
  judged.corrected = spearman(corrected, left_out.measured);
  return judged;
}

std::vector<float> shares_of(std::span<const float> features) {
  const std::span<const float> spent = spent_of(features);
  return {spent.begin(), spent.end()};
}

}  // namespace

double Corrections::covariance(const WeightedKernel& a, const WeightedKernel& b,
                               bool is_same_group) {
  const double alike = is_same_group ? 1 : alike_across_groups;
  return error_deviation * error_deviation * alike * a.features.similarity(b.features) +
         factor_deviation * factor_deviation * dot<float>(a.shares, b.shares);
}

Corrections::Corrections(std::span<const MeasuredKernel> kernels, uint64_t group) {
  const std::vector<const MeasuredKernel*> chosen = chosen_from(kernels, group);
  if (chosen.empty()) return;
  size_t own = 0;
  for (const MeasuredKernel* kernel : chosen) {
    const bool is_own = kernel->group == group;
    own += is_own ? 1 : 0;
    kernels_.push_back({ScaledFeatures(kernel->features), shares_of(kernel->features), is_own});
    // If a kernel was measured on another machine, it says nothing about the speeds of the
    // resources of the machine for which kernels are predicted.
    if (!kernel->same_machine) std::ranges::fill(kernels_.back().shares, 0.0F);
  }
  const std::vector<double> errors = errors_of(chosen);
  const Solution solution = solve(covariances_of(chosen), errors);
  const LeftOut left_out = leave_out(own, chosen, errors, solution);
  const double shrinkage = shrinkage_of(left_out);
  for (size_t i = 0; i < chosen.size(); ++i) kernels_[i].weight = shrinkage * solution.weights[i];
  leave_one_out_ = judge(left_out, shrinkage);
}

/// Returns the covariances of the errors of all pairs of measured kernels, in the lower triangle.
SquareMatrix Corrections::covariances_of(const std::vector<const MeasuredKernel*>& chosen) const {
  SquareMatrix covariances(chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i)
    for (size_t j = 0; j <= i; ++j) {
      const bool is_same_group = chosen[i]->group == chosen[j]->group;
      covariances.at(i, j) = covariance(kernels_[i], kernels_[j], is_same_group) +
                             (is_same_group ? group_deviation * group_deviation : 0) +
                             (i == j ? time_deviation * time_deviation : 0);
    }
  return covariances;
}

double Corrections::log2_factor(std::span<const float> features) const {
  if (kernels_.empty()) return 0;
  const WeightedKernel candidate{ScaledFeatures(features), shares_of(features)};
  double factor = 0;
  for (const WeightedKernel& kernel : kernels_)
    factor += covariance(candidate, kernel, kernel.is_own) * kernel.weight;
  return factor / std::numbers::ln2;
}

}  // namespace tw::cost_model
