// SPDX-License-Identifier: Apache-2.0
#include "schedules/toom_cook.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/result.h"

namespace tw::schedules {
namespace {

using Row = std::vector<Fraction>;

/// Returns the positive points a of `pairs` pairs a and -a at which the algorithm interpolates.
/// With each point the set has its reciprocal, as it does for 0 and infinity. Of all such sets of
/// fractions with numerators and denominators up to 5, these have the smallest amplification() of
/// F(4, 3), F(6, 3), F(4, 7) and F(6, 7). Points other than 1, 2, 1/2, ... were proposed by Alam,
/// Anderson, Barabasz and Gregg, Winograd Convolution for Deep Neural Networks: Efficient Point
/// Selection, ACM TECS 21(6), 2022.
Row pairs_of_points(size_t pairs) {
  static const std::vector<Row> of_pairs = {
      {},
      {fraction(1)},
      {fraction(2, 3), fraction(3, 2)},
      {fraction(1), fraction(2), fraction(1, 2)},
      {fraction(5, 2), fraction(2, 5), fraction(5, 4), fraction(4, 5)},
      {fraction(1), fraction(5, 2), fraction(2, 5), fraction(4, 3), fraction(3, 4)}};
  TW_CHECK(pairs < of_pairs.size(), "at most most_products");
  return of_pairs[pairs];
}

/// Returns the finite points: 0, then a and -a of each pair. The last pair may lack its second
/// point.
Row finite_points(size_t count) {
  Row points = {fraction(0)};
  for (const Fraction& point : pairs_of_points(count / 2)) {
    points.push_back(point);
    points.push_back(-point);
  }
  points.resize(count);
  return points;
}

/// Returns 1, a, a^2, ...
Row powers_of(const Fraction& a, size_t count) {
  Row row = {fraction(1)};
  while (row.size() < count) row.push_back(row.back() * a);
  row.resize(count);
  return row;
}

/// Returns the coefficients, lowest first, of the product of (x - point) over all points except the
/// point with index `without`. The row has `length` entries; missing coefficients are 0.
Row product_of_roots(const Row& points, size_t without, size_t length) {
  Row polynomial = {fraction(1)};
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == without) continue;
    Row next(polynomial.size() + 1);
    for (size_t k = 0; k < polynomial.size(); ++k) {
      next[k + 1] = next[k + 1] + polynomial[k];
      next[k] = next[k] + polynomial[k] * -points[i];
    }
    polynomial = std::move(next);
  }
  polynomial.resize(length);
  return polynomial;
}

/// Returns the value, at the point with index `at`, of the product of (x - point) over all other
/// points.
Fraction value_at_root(const Row& points, size_t at) {
  Fraction value = fraction(1);
  for (size_t i = 0; i < points.size(); ++i)
    if (i != at) value = value * (points[at] + -points[i]);
  return value;
}

Row scaled(Row row, const Fraction& by) {
  for (Fraction& value : row) value = value * by;
  return row;
}

double squares_of(const Row& row) {
  double sum = 0;
  for (const Fraction& value : row) sum += value.value() * value.value();
  return sum;
}

Row unit_row(size_t length) {
  Row row(length);
  row.back() = fraction(1);
  return row;
}

}  // namespace

Fraction fraction(int64_t numerator, int64_t denominator) {
  TW_CHECK(denominator != 0, "a fraction has a denominator");
  const int64_t sign = denominator < 0 ? -1 : 1;
  const int64_t divisor = sign * std::gcd(numerator, denominator);
  return {numerator / divisor, denominator / divisor};
}
// The operators below divide common factors out first, so that no intermediate number is larger
// than needed.
Fraction operator+(const Fraction& a, const Fraction& b) {
  const int64_t common = std::gcd(a.denominator, b.denominator);
  return fraction(a.numerator * (b.denominator / common) + b.numerator * (a.denominator / common),
                  a.denominator / common * b.denominator);
}
Fraction operator*(const Fraction& a, const Fraction& b) {
  const Fraction left = fraction(a.numerator, b.denominator);
  const Fraction right = fraction(b.numerator, a.denominator);
  return {left.numerator * right.numerator, left.denominator * right.denominator};
}

// Interpolation gives the product of two polynomials of degrees m - 1 and r - 1 from its values at
// the points and its leading coefficient, which is called its value at infinity. Transposing this
// bilinear algorithm gives an algorithm for the filter: evaluation of the first factor becomes the
// transform of the output, and interpolation becomes the transform of the input (Blahut, Fast
// Algorithms for Signal Processing, section 5.4).
ToomCook toom_cook(int64_t outputs, int64_t taps) {
  TW_CHECK(outputs >= 1 && taps >= 1 && outputs + taps - 1 <= most_products, "a short filter");
  const auto m = static_cast<size_t>(outputs), r = static_cast<size_t>(taps);
  const size_t products = m + r - 1;
  const Row points = finite_points(products - 1);
  ToomCook result;
  FractionMatrix outputs_by_product;
  for (size_t i = 0; i < points.size(); ++i) {
    // The Lagrange polynomial of a point is the product of the other roots, divided by the value of
    // that product at the point. The division is done in the transform of the filter, which is
    // computed once.
    const Row others = product_of_roots(points, i, products);
    const Fraction value = value_at_root(points, i);
    const Fraction sign = fraction(value.numerator < 0 ? -1 : 1);
    const Fraction inverse = fraction(value.denominator, value.numerator);
    result.input.push_back(scaled(others, sign));
    result.filter.push_back(scaled(powers_of(points[i], r), sign * inverse));
    outputs_by_product.push_back(powers_of(points[i], m));
  }
  result.input.push_back(product_of_roots(points, points.size(), products));
  result.filter.push_back(unit_row(r));
  outputs_by_product.push_back(unit_row(m));
  result.output.assign(m, Row(products));
  for (size_t i = 0; i < m; ++i)
    for (size_t p = 0; p < products; ++p) result.output[i][p] = outputs_by_product[p][i];
  return result;
}

double amplification(const ToomCook& algorithm) {
  double worst = 0;
  for (const Row& output : algorithm.output) {
    double sum = 0;
    for (size_t p = 0; p < output.size(); ++p)
      sum += output[p].value() * output[p].value() * squares_of(algorithm.filter[p]) *
             squares_of(algorithm.input[p]);
    worst = std::max(worst, sum);
  }
  return std::sqrt(worst / static_cast<double>(algorithm.filter[0].size()));
}

}  // namespace tw::schedules
