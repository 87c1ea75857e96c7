// SPDX-License-Identifier: Apache-2.0
#pragma once
// Toom-Cook algorithms for short FIR filters, as matrices of exact fractions. F(m, r) computes m
// consecutive outputs y[i] = sum_j d[i + j] g[j] of a filter with r taps. It needs m + r - 1
// products instead of m r: F(4, 3) needs 6 products instead of 12 (Winograd, Arithmetic Complexity
// of Computations, SIAM 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
// CVPR 2016):
//
//   y = output ((filter g) * (input d))        * is elementwise
//
// Free functions; thread-safe.

#include <cstdint>
#include <vector>

namespace tw::schedules {

/// A rational number in lowest terms with a positive denominator.
struct Fraction {
  int64_t numerator = 0, denominator = 1;

  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  friend bool operator==(const Fraction&, const Fraction&) = default;
};
/// Returns numerator / denominator in lowest terms. Requires: the denominator is not 0.
Fraction fraction(int64_t numerator, int64_t denominator = 1);
Fraction operator+(const Fraction& a, const Fraction& b);
Fraction operator*(const Fraction& a, const Fraction& b);
inline Fraction operator-(const Fraction& a) { return {-a.numerator, a.denominator}; }

/// A matrix as a list of rows of equal length.
using FractionMatrix = std::vector<std::vector<Fraction>>;

/// The matrices of F(m, r), which has p = m + r - 1 products.
struct ToomCook {
  FractionMatrix filter;  ///< p x r; G of Lavin and Gray
  FractionMatrix input;   ///< B^T of Lavin and Gray
  FractionMatrix output;  ///< A^T of Lavin and Gray
};

/// The largest number of products, m + r - 1, of an algorithm. With more products the rounding
/// errors far exceed every accuracy class.
inline constexpr int64_t most_products = 12;

/// Makes F(outputs, taps). The algorithm interpolates at 0, at pairs of fractions a and -a, and at
/// infinity. The pairs depend on the number of products, and were chosen for small rounding errors.
/// For 6 products they are 2/3 and -2/3, and 3/2 and -3/2. The rows of `filter` and `input` for a
/// and for -a differ only in the signs of odd columns. The columns of `output` for a and for -a
/// differ only in the signs of odd rows. Requires: outputs >= 1, taps >= 1, and outputs + taps - 1
/// <= most_products.
ToomCook toom_cook(int64_t outputs, int64_t taps);

/// Returns the factor by which the rounding errors of the algorithm exceed those of the declared
/// sum of products. It is the factor of the output with the largest errors, for data and weights
/// that are independent and of mean 0. The rounding error of a product is proportional to the
/// product, so for output j the amplification is sqrt(sum_i output_ji^2 |filter_i|^2 |input_i|^2 /
/// taps), where |filter_i| is the norm of row i. If algorithms are nested, their amplifications
/// multiply.
double amplification(const ToomCook& algorithm);

}  // namespace tw::schedules
