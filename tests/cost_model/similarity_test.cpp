// SPDX-License-Identifier: Apache-2.0
#include "cost_model/similarity.h"

#include <gtest/gtest.h>

#include "cost_model/features.h"

namespace tw::cost_model {
namespace {

TEST(ScaledFeatures, SimilarityIsOneForEqualRowsAndFallsWithDifferences) {
  std::vector<float> row(feature_count());
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 7);
  std::vector<float> near = row, far = row, retimed = row;
  near[3] += 1;
  for (float& value : far) value += 10;
  set_expected_time(retimed, 3);
  const ScaledFeatures here(row);
  EXPECT_EQ(here.similarity(ScaledFeatures(row)), 1);
  EXPECT_EQ(here.similarity(ScaledFeatures(retimed)), 1)
      << "the expected time is what is corrected";
  EXPECT_EQ(here.similarity(ScaledFeatures(near)), ScaledFeatures(near).similarity(here));
  EXPECT_LT(here.similarity(ScaledFeatures(near)), 1);
  EXPECT_GT(here.similarity(ScaledFeatures(near)), 0.9);
  EXPECT_LT(here.similarity(ScaledFeatures(far)), 1e-4);
}

}  // namespace
}  // namespace tw::cost_model
