// SPDX-License-Identifier: Apache-2.0
#include "schedules/toom_cook.h"

#include <gtest/gtest.h>

namespace tw::schedules {
namespace {

/// Returns the coefficient of d[column] * g[tap] in output `row`.
Fraction coefficient(const ToomCook& f, size_t row, size_t column, size_t tap) {
  Fraction sum;
  for (size_t p = 0; p < f.input.size(); ++p)
    sum = sum + f.output[row][p] * f.input[p][column] * f.filter[p][tap];
  return sum;
}

// The algorithm must equal the definition y[i] = sum_j d[i + j] g[j], term by term and without
// rounding.
TEST(ToomCook, EveryAlgorithmIsTheFilter) {
  for (int64_t outputs = 1; outputs < most_products; ++outputs)
    for (int64_t taps = 1; outputs + taps - 1 <= most_products; ++taps) {
      const ToomCook f = toom_cook(outputs, taps);
      const auto products = static_cast<size_t>(outputs + taps - 1);
      ASSERT_EQ(f.input.size(), products);
      ASSERT_EQ(f.filter.size(), products);
      ASSERT_EQ(f.output.size(), static_cast<size_t>(outputs));
      for (size_t i = 0; i < static_cast<size_t>(outputs); ++i)
        for (size_t j = 0; j < static_cast<size_t>(taps); ++j)
          for (size_t column = 0; column < products; ++column)
            EXPECT_EQ(coefficient(f, i, column, j), fraction(column == i + j ? 1 : 0))
                << "F(" << outputs << ", " << taps << ")";
    }
}

FractionMatrix over(int64_t denominator, const std::vector<std::vector<int64_t>>& rows) {
  FractionMatrix matrix;
  for (const auto& row : rows) {
    matrix.emplace_back();
    for (const int64_t value : row) matrix.back().push_back(fraction(value, denominator));
  }
  return matrix;
}

// The matrices of Lavin and Gray, section 4.1, except for signs and the order of the points.
TEST(ToomCook, TheSmallestMatricesAreThoseOfLavinAndGray) {
  const ToomCook f2 = toom_cook(2, 3);
  EXPECT_EQ(f2.filter, over(2, {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}}));
  EXPECT_EQ(f2.input, over(1, {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}}));
  EXPECT_EQ(f2.output, over(1, {{1, 1, 1, 0}, {0, 1, -1, 1}}));
}

// The polynomial of the interpolation points has the factor (x^2 - 4/9) (x^2 - 9/4), which is x^4 -
// 97/36 x^2 + 1.
TEST(ToomCook, SixProductsInterpolateAtTwoThirdsAndThreeHalves) {
  const ToomCook f4 = toom_cook(4, 3);
  EXPECT_EQ(f4.input[0], over(36, {{36, 0, -97, 0, 36, 0}})[0]);
  EXPECT_EQ(f4.input[5], over(36, {{0, 36, 0, -97, 0, 36}})[0]);
  EXPECT_EQ(f4.output, over(216, {{216, 216, 216, 216, 216, 0},
                                  {0, 144, -144, 324, -324, 0},
                                  {0, 96, 96, 486, 486, 0},
                                  {0, 64, -64, 729, -729, 216}}));
}

TEST(ToomCook, MoreProductsRoundMore) {
  EXPECT_NEAR(amplification(toom_cook(2, 3)), 1.3, 0.05);
  EXPECT_NEAR(amplification(toom_cook(4, 3)), 2.7, 0.05);
  EXPECT_NEAR(amplification(toom_cook(6, 3)), 6.8, 0.05);
  EXPECT_NEAR(amplification(toom_cook(4, 7)), 12.8, 0.05);
  EXPECT_NEAR(amplification(toom_cook(6, 7)), 35.1, 0.05);
}

TEST(ToomCook, FractionsAreInLowestTerms) {
  EXPECT_EQ(fraction(6, -4), (Fraction{-3, 2}));
  EXPECT_EQ(fraction(0, 7), fraction(0));
  EXPECT_EQ(fraction(1, 6) + fraction(1, 3), fraction(1, 2));
  EXPECT_EQ(fraction(2, 3) * fraction(-9, 4), fraction(-3, 2));
  EXPECT_EQ(fraction(1, 4).value(), 0.25);
}

}  // namespace
}  // namespace tw::schedules
