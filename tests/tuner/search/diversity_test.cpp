// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/diversity.h"

#include <gtest/gtest.h>

#include "cost_model/features.h"

namespace tw::tuner {
namespace {

using cost_model::ScaledFeatures;

/// Returns the features of a kernel. Of the first 20 features, every other one is `first` and the
/// rest are `second`.
ScaledFeatures at(float first, float second) {
  std::vector<float> row(cost_model::feature_count());
  for (size_t i = 0; i < 20; ++i) row[i] = i % 2 == 0 ? first : second;
  return ScaledFeatures(row);
}

std::vector<size_t> order_of(const std::vector<BatchCandidate>& all) {
  return choose_diverse(all, {}, all.size());
}

TEST(ChooseDiverse, OfEqualKernelsOneComesLater) {
  const ScaledFeatures here = at(0, 1), there = at(5, 4);
  EXPECT_EQ(order_of({{1.0, here}, {0.99, here}, {0.9, there}}), (std::vector<size_t>{0, 2, 1}));
}

TEST(ChooseDiverse, AKernelThatCannotBeTheBestComesLastHoweverDifferent) {
  const ScaledFeatures here = at(0, 1), there = at(5, 4);
  EXPECT_EQ(order_of({{1.0, here}, {0.99, here}, {-3.0, there}}), (std::vector<size_t>{0, 1, 2}));
}

TEST(ChooseDiverse, KernelsThatDifferAlikeComeByTheirScores) {
  EXPECT_EQ(order_of({{0.7, at(0, 0)}, {1.0, at(9, 0)}, {0.8, at(0, 9)}, {0.9, at(9, 9)}}),
            (std::vector<size_t>{1, 3, 2, 0}));
  EXPECT_EQ(order_of({{0.7, at(0, 0)}, {1.0, at(9, 0)}}), (std::vector<size_t>{1, 0}));
  const ScaledFeatures same = at(3, 3);
  EXPECT_EQ(order_of({{0.7, same}, {1.0, same}, {0.8, same}}), (std::vector<size_t>{1, 2, 0}));
}

TEST(ChooseDiverse, KernelsLikeThoseProposedBeforeComeLater) {
  const ScaledFeatures here = at(0, 1), there = at(5, 4);
  const std::vector<BatchCandidate> candidates = {{1.0, here}, {0.9, there}};
  EXPECT_EQ(choose_diverse(candidates, {}, 2), (std::vector<size_t>{0, 1}));
  const std::vector<ScaledFeatures> proposed = {here};
  EXPECT_EQ(choose_diverse(candidates, proposed, 2), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(choose_diverse(candidates, {}, 1), (std::vector<size_t>{0}));
}

TEST(ChooseDiverse, NoneAndOne) {
  EXPECT_TRUE(order_of({}).empty());
  EXPECT_EQ(order_of({{1.0, at(0, 0)}}), (std::vector<size_t>{0}));
}

}  // namespace
}  // namespace tw::tuner
