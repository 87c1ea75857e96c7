// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes bounds of the rounding error of elements of a Compute. The bound of an element is the
// largest error of a kernel that evaluates the loops in the declared order and types.
//
// Each number has three parts: its value by the definition (interpret.h), the value that the
// declared loops compute in the declared types, and a bound of the difference. Every operation
// propagates the bound to first order (running error analysis: Higham, Accuracy and Stability of
// Numerical Algorithms, 2nd ed., §3.3). A sum of the terms t_1, ..., t_n, whose partial sums are
// S_k, adds to the bound
//
//   c u sqrt(S_2^2 + ... + S_n^2)      u: the unit roundoff of its type, c = 4
//
// and not the worst case u (|S_2| + ... + |S_n|) of §4.2. The rounding error of S_k is at most u
// |S_k|. If these errors are independent with mean zero, their sum exceeds the bound with a
// probability of at most 2 exp(-c^2 / 2) = 7e-4 (Hoeffding; Higham and Mary, A New Approach to
// Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019). The errors are not
// independent in very long sums, in which each term loses digits. In such a sum the declared loop
// itself has a large error, and the bound is increased by twice this error. An operation whose
// result is exact adds nothing, so the bound of small integers is zero.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/interpret.h"

namespace tw::dsl {

/// The value of an element and the bound of its rounding error.
struct Rounded {
  double value = 0;     ///< value by the definition
  double rounding = 0;  ///< error that a kernel may have; 0 if nothing is rounded
  /// True if an intermediate value exceeds the largest number of its type, or is so near to it that
  /// rounding decides, or if rounding decides whether the argument of a logarithm is 0. Kernels may
  /// then return infinity, NaN or a number, so the element is not verified.
  bool overflows = false;
  /// True if the value depends on a NaN that an operation made of operands that are not NaN, as
  /// exp(log(-1.0)) does. The result of a comparison or of a conversion to an integer may depend on
  /// such a NaN, too. Kernels for processors assume that no float is NaN and may return any value,
  /// so the element is not verified. `x <= inf` does not depend on a NaN, since kernels compute it
  /// by the bits of x.
  bool is_undefined = false;
  bool is_verified() const { return !overflows && !is_undefined; }
};

/// Evaluates single elements with their error bounds. Keeps references to the compute and the
/// inputs, which must outlive the analysis. Not thread-safe.
class RoundingAnalysis {
 public:
  /// Fails as interpret() does.
  static Result<RoundingAnalysis> make(const Compute& compute, const Arrays& inputs);
  RoundingAnalysis(RoundingAnalysis&&) noexcept;
  ~RoundingAnalysis();

  Result<Rounded> at(const std::string& tensor, const std::vector<int64_t>& indices);
  /// Returns the work that calls of at() have done so far: the number of elements of stages plus
  /// the number of terms of reductions that were evaluated.
  int64_t evaluations() const;

 private:
  struct Walk;
  explicit RoundingAnalysis(std::unique_ptr<Walk> walk);
  std::unique_ptr<Walk> walk_;
};

/// Returns the unit roundoff: half of the distance from 1 to the next larger number of the type,
/// 2^-24 for f32. Requires: a float type.
double unit_roundoff(DType type);

}  // namespace tw::dsl
