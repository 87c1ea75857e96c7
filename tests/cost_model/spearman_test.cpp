// SPDX-License-Identifier: Apache-2.0
#include "cost_model/spearman.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tw::cost_model {
namespace {

std::optional<double> correlation(const std::vector<double>& a, const std::vector<double>& b) {
  return spearman(a, b);
}

TEST(Spearman, IsTheCorrelationOfRanks) {
  EXPECT_DOUBLE_EQ(*correlation({1, 2, 3, 4}, {10, 100, 1000, 1e9}), 1);
  EXPECT_DOUBLE_EQ(*correlation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  // The differences of ranks are 0, 1, -1 and 0, so that the result is 1 - 6 * 2 / (4 * 15).
  EXPECT_DOUBLE_EQ(*correlation({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8);
}

TEST(Spearman, TiesShareTheirMeanRank) {
  // The ranks are 0.5, 0.5, 2 and 0, 1, 2. Their covariance is 1.5, and their variances are 1.5 and
  // 2.
  EXPECT_DOUBLE_EQ(*correlation({7, 7, 9}, {1, 2, 3}), 1.5 / std::sqrt(1.5 * 2));
}

TEST(Spearman, ConstantsHaveNoCorrelation) {
  EXPECT_FALSE(correlation({1, 1, 1}, {1, 2, 3}));
  EXPECT_FALSE(correlation({}, {}));
}

TEST(Spearman, Fault44_NaNHasNoCorrelation) { EXPECT_FALSE(correlation({NAN, 1, NAN}, {1, 2, 3})); }

}  // namespace
}  // namespace tw::cost_model
