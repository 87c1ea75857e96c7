// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/diversity.h"

#include <gtest/gtest.h>

#include <array>

namespace tw::tuner {
namespace {

using Features = std::array<float, 2>;

std::vector<size_t> order_of(const std::vector<std::pair<double, Features>>& all) {
  std::vector<BatchCandidate> candidates;
  for (const auto& [score, features] : all) candidates.push_back({score, features});
  return choose_diverse(candidates, {}, all.size());
}

TEST(ChooseDiverse, OfEqualKernelsOneComesLater) {
  const Features here = {0, 1}, there = {5, 4};
  EXPECT_EQ(order_of({{1.0, here}, {0.99, here}, {0.9, there}}), (std::vector<size_t>{0, 2, 1}));
}

TEST(ChooseDiverse, AKernelThatCannotBeTheBestComesLastHoweverDifferent) {
  const Features here = {0, 1}, there = {5, 4};
  EXPECT_EQ(order_of({{1.0, here}, {0.99, here}, {-3.0, there}}), (std::vector<size_t>{0, 1, 2}));
}

TEST(ChooseDiverse, KernelsThatDifferAlikeComeByTheirScores) {
  EXPECT_EQ(order_of({{0.7, {0, 0}}, {1.0, {9, 0}}, {0.8, {0, 9}}, {0.9, {9, 9}}}),
            (std::vector<size_t>{1, 3, 2, 0}));
  EXPECT_EQ(order_of({{0.7, {0, 0}}, {1.0, {9, 0}}}), (std::vector<size_t>{1, 0}));
  const Features same = {3, 3};
  EXPECT_EQ(order_of({{0.7, same}, {1.0, same}, {0.8, same}}), (std::vector<size_t>{1, 2, 0}));
}

// One feature counts in bytes and one in shares: what counts is how unusual a difference is.
TEST(ChooseDiverse, TheScaleOfAFeatureDoesNotMatter) {
  for (const float bytes : {1.0F, 1e6F})
    EXPECT_EQ(order_of({{1.0, {0, 0}}, {0.85, {0, bytes}}, {0.9, {1, 0}}, {0.8, {1, bytes}}}),
              (std::vector<size_t>{0, 2, 1, 3}));
}

TEST(ChooseDiverse, KernelsLikeThoseProposedBeforeComeLater) {
  const Features here = {0, 1}, there = {5, 4};
  const std::vector<BatchCandidate> candidates = {{1.0, here}, {0.9, there}};
  EXPECT_EQ(choose_diverse(candidates, {}, 2), (std::vector<size_t>{0, 1}));
  const std::vector<std::span<const float>> proposed = {here};
  EXPECT_EQ(choose_diverse(candidates, proposed, 2), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(choose_diverse(candidates, {}, 1), (std::vector<size_t>{0}));
}

TEST(ChooseDiverse, NoneAndOne) {
  EXPECT_TRUE(order_of({}).empty());
  EXPECT_EQ(order_of({{1.0, {0, 0}}}), (std::vector<size_t>{0}));
}

}  // namespace
}  // namespace tw::tuner
