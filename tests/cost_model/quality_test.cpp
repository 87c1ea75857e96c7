// SPDX-License-Identifier: Apache-2.0
#include "cost_model/quality.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tw::cost_model {
namespace {

std::optional<double> correlation(const std::vector<double>& a, const std::vector<double>& b) {
  return spearman(a, b);
}

std::vector<Judged> group(size_t id, const std::vector<double>& scores,
                          const std::vector<double>& throughputs) {
  std::vector<Judged> result;
  for (size_t i = 0; i < scores.size(); ++i) result.push_back({id, scores[i], throughputs[i]});
  return result;
}

TEST(Quality, SpearmanIsTheCorrelationOfRanks) {
  EXPECT_DOUBLE_EQ(*correlation({1, 2, 3, 4}, {10, 100, 1000, 1e9}), 1);
  EXPECT_DOUBLE_EQ(*correlation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  // d = 0 1 -1 0, so 1 - 6 * 2 / (4 * 15).
  EXPECT_DOUBLE_EQ(*correlation({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8);
}

TEST(Quality, TiesShareTheirMeanRank) {
  // Ranks 0.5 0.5 2 against 0 1 2: covariance 1.5, variances 1.5 and 2.
  EXPECT_DOUBLE_EQ(*correlation({7, 7, 9}, {1, 2, 3}), 1.5 / std::sqrt(1.5 * 2));
}

TEST(Quality, ConstantsHaveNoCorrelation) {
  EXPECT_FALSE(correlation({1, 1, 1}, {1, 2, 3}));
  EXPECT_FALSE(correlation({}, {}));
}

TEST(Quality, Fault44_NaNIsTheLowestScore) {
  EXPECT_FALSE(correlation({NAN, 1, NAN}, {1, 2, 3}));
  const Quality q = judge(group(0, {NAN, NAN, 3, 4, 5, 6, 7, 8}, {80, 70, 1, 2, 3, 4, 5, 6}));
  EXPECT_DOUBLE_EQ(q.recall, 0);
  EXPECT_DOUBLE_EQ(q.regret, 1 - 6.0 / 80);
}

TEST(Quality, APerfectOrderLosesNothing) {
  const Quality q = judge(group(0, {1, 2, 3, 4, 5, 6, 7, 8}, {10, 20, 30, 40, 50, 60, 70, 80}));
  EXPECT_DOUBLE_EQ(q.spearman, 1);
  EXPECT_DOUBLE_EQ(q.recall, 1);
  EXPECT_DOUBLE_EQ(q.regret, 0);
  EXPECT_EQ(q.groups, 1u);
}

TEST(Quality, RecallAndRegretLookAtThePicks) {
  // k = 2 of 8: the picks are 70 and 10, the fastest 80 and 70.
  const Quality q = judge(group(0, {9, 1, 2, 3, 4, 5, 8, 0}, {10, 20, 30, 40, 50, 60, 70, 80}));
  EXPECT_DOUBLE_EQ(q.recall, 0.5);
  EXPECT_DOUBLE_EQ(q.regret, 1 - 70.0 / 80);
}

TEST(Quality, GroupsCountAlikeAndScoresStayWithinThem) {
  std::vector<Judged> all = group(0, {1, 2, 3}, {1, 2, 3});
  const std::vector<Judged> wrong = group(1, {30, 20, 10}, {1, 2, 4});
  all.insert(all.end(), wrong.begin(), wrong.end());
  const Quality q = judge(all);
  EXPECT_EQ(q.groups, 2u);
  EXPECT_DOUBLE_EQ(q.spearman, 0);
  EXPECT_DOUBLE_EQ(q.recall, 0.5);
  EXPECT_DOUBLE_EQ(q.regret, (0 + 0.75) / 2);
}

TEST(Quality, GroupsThatSayNothingAreLeftOut) {
  std::vector<Judged> all = group(0, {1, 2}, {1, 2});
  const std::vector<Judged> equal = group(1, {1, 2, 3}, {5, 5, 5});
  all.insert(all.end(), equal.begin(), equal.end());
  EXPECT_EQ(judge(all).groups, 0u);
  EXPECT_EQ(judge(all).regret, 1);
}

TEST(Quality, PicksAreAQuarterUpToEight) {
  EXPECT_EQ(picks(3), 1u);
  EXPECT_EQ(picks(20), 5u);
  EXPECT_EQ(picks(1000), 8u);
}

}  // namespace
}  // namespace tw::cost_model
