// SPDX-License-Identifier: Apache-2.0
#include "cost_model/booster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "cost_model/spearman.h"
#include "cost_model/xgboost.h"

namespace tw::cost_model {
namespace {

constexpr size_t columns = 6;

/// Returns rows with the label x0 - x1 * x1. The other columns are noise.
TrainingSet synthetic(size_t rows, uint64_t seed) {
  Random random(seed);
  TrainingSet data(columns);
  for (size_t i = 0; i < rows; ++i) {
    std::vector<float> row;
    for (size_t c = 0; c < columns; ++c) row.push_back(static_cast<float>(random.unit()));
    data.labels.push_back(row[0] - row[1] * row[1]);
    data.rows.append(row);
  }
  return data;
}

double held_out_correlation(const BoosterOptions& options) {
  const auto booster = Booster::train(synthetic(400, 1), options);
  EXPECT_TRUE(booster) << booster.error().message;
  const TrainingSet test = synthetic(100, 2);
  const auto scores = booster->predict(test.rows);
  EXPECT_TRUE(scores);
  const std::vector<double> a(scores->begin(), scores->end());
  const std::vector<double> b(test.labels.begin(), test.labels.end());
  return spearman(a, b).value_or(0);
}

TEST(Booster, LearnsAnOrder) {
  EXPECT_GT(held_out_correlation({.objective = Objective::Regression}), 0.9);
}

TEST(Booster, LearnsProbabilities) {
  TrainingSet data = synthetic(300, 3);
  for (float& label : data.labels) label = label > 0.2F ? 1 : 0;
  const auto booster = Booster::train(data, {.objective = Objective::Probability});
  ASSERT_TRUE(booster) << booster.error().message;
  Matrix rows(columns);
  rows.append(std::vector<float>{0.9F, 0.1F, 0, 0, 0, 0});
  rows.append(std::vector<float>{0.1F, 0.9F, 0, 0, 0, 0});
  const auto p = booster->predict(rows);
  ASSERT_TRUE(p);
  EXPECT_GT((*p)[0], 0.9);
  EXPECT_LT((*p)[1], 0.1);
}

TEST(Booster, LearnsValuesByWeight) {
  TrainingSet data(1);
  for (int i = 0; i < 40; ++i) {
    data.rows.append(std::vector<float>{0});
    data.labels.push_back(i % 2 == 0 ? 1.0F : 0.0F);
    data.weights.push_back(i % 2 == 0 ? 3.0F : 1.0F);
  }
  const auto booster = Booster::train(data, {.objective = Objective::Regression, .rounds = 200});
  ASSERT_TRUE(booster) << booster.error().message;
  EXPECT_NEAR(booster->predict(data.rows)->at(0), 0.75, 0.02);
}

TEST(Booster, BytesRoundTrip) {
  const TrainingSet data = synthetic(100, 4);
  const auto booster = Booster::train(data, {.rounds = 10});
  ASSERT_TRUE(booster);
  const auto bytes = booster->to_bytes();
  ASSERT_TRUE(bytes);
  const auto again = Booster::from_bytes(*bytes);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->columns(), columns);
  EXPECT_EQ(*again->predict(data.rows), *booster->predict(data.rows));
}

TEST(Booster, EqualSeedsGiveEqualBytes) {
  const BoosterOptions options{.rounds = 20, .seed = 7};
  const auto a = Booster::train(synthetic(180, 5), options)->to_bytes();
  const auto b = Booster::train(synthetic(180, 5), options)->to_bytes();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(*a, *b);
}

TEST(Booster, NoRowsPredictNothing) {
  const auto booster = Booster::train(synthetic(20, 6), {.rounds = 2});
  ASSERT_TRUE(booster);
  EXPECT_TRUE(booster->predict(Matrix(columns))->empty());
}

TEST(Booster, RowsOfAnotherWidthAreRefused) {
  const auto booster = Booster::train(synthetic(20, 6), {.rounds = 2});
  ASSERT_TRUE(booster);
  Matrix narrow(columns - 1);
  narrow.append(std::vector<float>(columns - 1, 0));
  EXPECT_FALSE(booster->predict(narrow));
}

std::string refusal(const TrainingSet& data, Objective objective = Objective::Regression) {
  const auto booster = Booster::train(data, {.objective = objective, .rounds = 2});
  EXPECT_FALSE(booster);
  return booster ? "" : booster.error().message;
}

TEST(Booster, Fault44_WithoutTheLibraryTheErrorSaysWhatToInstall) {
  const auto absent = open_xgboost({"libabsent.so"});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::Environment);
  EXPECT_NE(absent.error().message.find("install libxgboost0"), std::string::npos);
  // The library exists, but it is not XGBoost.
  const auto another = open_xgboost({"libc.so.6"});
  ASSERT_FALSE(another);
  EXPECT_NE(another.error().message.find("XGBGetLastError"), std::string::npos);
  EXPECT_TRUE(open_xgboost({"libabsent.so", "libxgboost.so.0"}));
}

TEST(Booster, Fault44_OneRowIsNothingToLearnFrom) {
  EXPECT_NE(refusal(synthetic(1, 1)).find("1 rows given, at least 2"), std::string::npos);
  EXPECT_NE(refusal(TrainingSet(columns)).find("0 rows given"), std::string::npos);
}

TEST(Booster, Fault44_EqualLabelsAreNothingToLearnFrom) {
  TrainingSet data = synthetic(20, 1);
  data.labels.assign(20, 0.5F);
  EXPECT_NE(refusal(data).find("all 20 labels are 0.5"), std::string::npos);
}

TEST(Booster, Fault44_ValuesThatAreNotFiniteAreRefused) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    TrainingSet label = synthetic(20, 1);
    label.labels[3] = bad;
    EXPECT_NE(refusal(label).find("NaN or infinite"), std::string::npos);
    TrainingSet feature(columns);
    feature.rows.append(std::vector<float>(columns, bad));
    feature.rows.append(std::vector<float>(columns, 0));
    feature.labels = {0, 1};
    EXPECT_NE(refusal(feature).find("NaN or infinite"), std::string::npos);
  }
}

// If all weights were 0, XGBoost would predict NaN for each row.
TEST(Booster, Fault44_WeightsOfZeroAreRefused) {
  TrainingSet data = synthetic(40, 1);
  data.weights.assign(40, 0);
  EXPECT_NE(refusal(data).find("no row has a positive weight"), std::string::npos);
}

TEST(Booster, Fault44_WhatXGBoostRefusesIsAnError) {
  TrainingSet data = synthetic(20, 1);
  data.labels[0] = 2;  // no probability
  EXPECT_NE(refusal(data, Objective::Probability).find("XGBoost says"), std::string::npos);
}

TEST(Booster, SizesThatDoNotMatchAreRefused) {
  TrainingSet data = synthetic(20, 1);
  data.labels.pop_back();
  EXPECT_NE(refusal(data).find("20 rows with 19 labels"), std::string::npos);
}

TEST(Booster, Fault45_BytesThatAreNoModelAreAnError) {
  const auto booster = Booster::from_bytes("{nonsense");
  ASSERT_FALSE(booster);
  EXPECT_EQ(booster.error().message.find('\n'), std::string::npos) << booster.error().message;
}

}  // namespace
}  // namespace tw::cost_model
