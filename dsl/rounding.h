// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds of the rounding error of an element of a Compute. The bound is the error that a kernel may
// have if it evaluates the loops as they are declared, in the declared types.
//
// Each number has three parts: its exact value by the definition, the value that the declared loops
// compute in the declared types, and a bound of the difference, propagated to first order through
// every operation (running error analysis: Higham, Accuracy and Stability of Numerical Algorithms,
// 2nd ed., §3.3). A sum of terms t_1 + ... + t_n with the partial sums S_k adds
//
//   c u sqrt(S_2^2 + ... + S_n^2)      u: the unit roundoff of its type, c = 4
//
// in place of the worst case u (|S_2| + ... + |S_n|) of §4.2. Each rounding error is at most u
// |S_k|. If the errors are independent with mean zero, their sum exceeds the bound with a
// probability of at most 2 exp(-c^2 / 2) = 7e-4 (Hoeffding; Higham and Mary, A New Approach to
// Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019). If they are not
// independent, as in sums so long that each term loses digits, the declared loop itself has a large
// error, and twice that error is added to the bound. An operation whose result needs no rounding
// adds nothing, so small integers have a bound of zero.

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
  /// True if an intermediate value leaves the range of its type, or stays so narrowly within it
  /// that rounding decides: kernels may then return infinity, NaN or a number.
  bool overflows = false;
};

/// Evaluates single elements. Refers to the compute and the inputs, which must outlive it. Not
/// thread-safe.
class RoundingAnalysis {
 public:
  /// Fails as interpret() does.
  static Result<RoundingAnalysis> make(const Compute& compute, const Arrays& inputs);
  RoundingAnalysis(RoundingAnalysis&&) noexcept;
  ~RoundingAnalysis();

  Result<Rounded> at(const std::string& tensor, const std::vector<int64_t>& indices);
  /// Cost of at() so far: the number of elements of stages and of terms of reductions that were
  /// evaluated.
  int64_t evaluations() const;

 private:
  struct Walk;
  explicit RoundingAnalysis(std::unique_ptr<Walk> walk);
  std::unique_ptr<Walk> walk_;
};

/// Half of the distance from 1 to the next larger number of a float type. Requires: a float type.
double unit_roundoff(DType type);

}  // namespace tw::dsl
