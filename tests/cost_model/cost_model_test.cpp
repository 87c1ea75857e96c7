// SPDX-License-Identifier: Apache-2.0
#include "cost_model/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "cost_model/spearman.h"
#include "tests/cost_model/programs.h"

namespace tw::cost_model {
namespace {

constexpr uint64_t own = 0;

// Returns random features like those of a program for CPUs. Columns 6 to 15 are equal; with
// Truth::OfFeatures they determine the throughput.
std::vector<float> random_row(Random& random) {
  std::vector<float> row(feature_count());
  for (size_t f = 0; f < row.size(); ++f)
    if (!feature_table()[f].name.starts_with("gpu_")) row[f] = static_cast<float>(random.unit());
  std::fill(row.begin() + 7, row.begin() + 16, row[6]);
  set_expected_time(row, static_cast<float>(analytic_time_of(row)));
  return row;
}

enum class Truth { OfFeatures, OfAnalytic };

std::vector<Sample> measured(size_t groups, size_t samples_a_group, Truth truth, uint64_t seed) {
  Random random(seed);
  std::vector<Sample> samples;
  for (size_t g = 0; g < groups; ++g)
    for (size_t i = 0; i < samples_a_group; ++i) {
      Sample s;
      s.features = random_row(random);
      s.group = g;
      const double quality = truth == Truth::OfAnalytic ? std::exp2(-ordering_time_of(s.features))
                                                        : 0.1 + s.features[6] * s.features[6];
      s.throughput = quality * std::pow(10.0, static_cast<double>(g));  // groups differ in scale
      samples.push_back(std::move(s));
    }
  return samples;
}

std::vector<std::vector<float>> rows_of(const std::vector<Sample>& samples) {
  std::vector<std::vector<float>> rows;
  for (const Sample& s : samples) rows.push_back(s.features);
  return rows;
}

/// Returns samples in which a row fails if its column 5 is above 0.7, however fast the analytic
/// model expects it to be. Keeps at most `failures` failing rows.
std::vector<Sample> with_failures(size_t samples, size_t failures, uint64_t seed) {
  std::vector<Sample> result;
  for (Sample& s : measured(1, samples, Truth::OfAnalytic, seed)) {
    s.valid = s.features[5] <= 0.7F;
    if (!s.valid && failures == 0) continue;
    if (!s.valid) s.throughput = 0;
    failures -= s.valid ? 0 : 1;
    result.push_back(std::move(s));
  }
  return result;
}

/// Returns how many rows would fail among those with the best 20 scores of 200 new rows.
int failing_picks(const CostModel& model) {
  const std::vector<std::vector<float>> rows = rows_of(measured(1, 200, Truth::OfAnalytic, 77));
  const std::vector<double> scores = model.for_group(own).predict(rows);
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return static_cast<int>(std::count_if(order.begin(), order.begin() + 20,
                                        [&](size_t i) { return rows[i][5] > 0.7F; }));
}

CostModel taught(const std::vector<Sample>& samples) {
  CostModel model;
  EXPECT_TRUE(model.add(samples));
  EXPECT_TRUE(model.learn_failures());
  return model;
}

TEST(CostModel, WhatIsLikelyToFailIsPickedLater) {
  const CostModel naive = taught(with_failures(200, 0, 5)),
                  unsure = taught(with_failures(200, 4, 5)),
                  warned = taught(with_failures(200, 200, 5));
  EXPECT_EQ(unsure.failures(), 4u);
  ASSERT_GE(failing_picks(naive), 4);
  EXPECT_EQ(failing_picks(unsure), failing_picks(naive));  // too little evidence
  EXPECT_LE(failing_picks(warned), 1);
}

TEST(CostModel, FailuresAreLearnedAnewWhenTheSamplesHaveDoubled) {
  std::vector<Sample> samples = with_failures(60, 60, 5);
  CostModel model = taught(samples);
  const std::vector<std::vector<float>> rows = rows_of(with_failures(40, 40, 6));
  const std::vector<double> before = model.for_group(1).predict(rows);
  std::vector<Sample> few(samples.begin(), samples.begin() + 5);
  for (Sample& sample : few) sample.valid = false;
  ASSERT_TRUE(model.add(few));
  ASSERT_TRUE(model.learn_failures());
  EXPECT_EQ(model.for_group(1).predict(rows), before);
  std::vector<Sample> many = with_failures(300, 300, 7);
  std::erase_if(many, [](const Sample& sample) { return sample.valid; });
  ASSERT_GT(many.size(), samples.size());
  ASSERT_TRUE(model.add(many));
  EXPECT_EQ(model.for_group(1).predict(rows), before) << "they are no trials that correct";
  ASSERT_TRUE(model.learn_failures());
  EXPECT_NE(model.for_group(1).predict(rows), before);
}

TEST(CostModel, StartsWithTheAnalyticModel) {
  const auto good =
      extract_features(testing::conv({.pixels = 14, .vectors = 2}), testing::avx512(), 1);
  const auto bad =
      extract_features(testing::conv({.pixels = 1, .vectors = 1}), testing::avx512(), 1);
  const std::vector<std::vector<float>> rows = {*bad, *good};
  for (const WorkloadModel& model : {CostModel().for_group(own), WorkloadModel()}) {
    const std::vector<double> scores = model.predict(rows);
    EXPECT_LT(scores[0], scores[1]);
    EXPECT_EQ(scores[0], -ordering_time_of(*bad));
    EXPECT_TRUE(model.predict({}).empty());
    EXPECT_EQ(model.leave_one_out().trials, 0u);
  }
}

TEST(CostModel, LearnsWhatTheAnalyticModelDoesNotKnow) {
  const CostModel model = taught(measured(4, 80, Truth::OfFeatures, 3));
  const std::vector<Sample> test = measured(1, 60, Truth::OfFeatures, 99);
  std::vector<double> throughputs;
  for (const Sample& s : test) throughputs.push_back(s.throughput);
  const auto correlation = [&](const WorkloadModel& known) {
    return spearman(known.predict(rows_of(test)), throughputs).value_or(0);
  };
  EXPECT_LT(correlation(WorkloadModel()), 0.3);
  EXPECT_GT(correlation(model.for_group(own)), 0.5);
  const LeaveOneOut judged = model.for_group(own).leave_one_out();
  EXPECT_GT(judged.corrected, judged.before);
}

// A tuning task keeps its WorkloadModel while another task of the run adds trials to the CostModel.
TEST(CostModel, WhatIsKnownOfAWorkloadDoesNotChangeWithTheModel) {
  CostModel model = taught(measured(1, 20, Truth::OfFeatures, 3));
  const WorkloadModel known = model.for_group(own);
  const std::vector<std::vector<float>> rows = rows_of(measured(1, 5, Truth::OfFeatures, 4));
  const std::vector<double> before = known.predict(rows);
  ASSERT_TRUE(model.add(measured(1, 20, Truth::OfAnalytic, 5)));
  EXPECT_EQ(known.predict(rows), before);
  EXPECT_NE(model.for_group(own).predict(rows), before);
}

TEST(CostModel, EqualSamplesPredictAlike) {
  const CostModel a = taught(with_failures(90, 90, 7)), b = taught(with_failures(90, 90, 7));
  const std::vector<std::vector<float>> rows = rows_of(measured(1, 9, Truth::OfFeatures, 8));
  EXPECT_EQ(a.for_group(own).predict(rows), b.for_group(own).predict(rows));
}

/// True if the model orders kernels as the analytic model does.
bool is_uncorrected(const CostModel& model) {
  const std::vector<std::vector<float>> rows = rows_of(measured(1, 30, Truth::OfFeatures, 12));
  std::vector<double> times;
  for (const std::vector<float>& row : rows) times.push_back(-ordering_time_of(row));
  return spearman(model.for_group(own).predict(rows), times).value_or(0) > 0.999;
}

TEST(CostModel, Fault44_SamplesThatSayNothingCorrectNothing) {
  EXPECT_TRUE(is_uncorrected(taught(measured(1, 1, Truth::OfFeatures, 14)))) << "one sample";
  EXPECT_TRUE(is_uncorrected(taught(measured(40, 1, Truth::OfFeatures, 15))))
      << "each is the only one of its group";
  std::vector<Sample> failed = measured(1, 40, Truth::OfFeatures, 16);
  for (Sample& s : failed) s.valid = false;
  EXPECT_TRUE(is_uncorrected(taught(failed))) << "none works, so that none is known to";
}

TEST(CostModel, Fault44_SamplesThatAreNotNumbersAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int what : {0, 1, 2, 3}) {
    std::vector<Sample> samples = measured(1, 3, Truth::OfFeatures, 16);
    if (what == 0) samples[2].features[4] = nan;
    if (what == 1) samples[2].throughput = nan;
    if (what == 2) samples[2].throughput = 0;
    if (what == 3) samples[2].features.pop_back();
    CostModel model;
    const Status status = model.add(samples);
    ASSERT_FALSE(status) << what;
    EXPECT_EQ(status.error().code, ErrorCode::Invalid);
    EXPECT_NE(status.error().message.find("1 of 3 samples are refused: sample 2"),
              std::string::npos);
    EXPECT_EQ(model.valid_samples(), 2u);
  }
}

TEST(CostModel, Fault92_ARefusedSampleDoesNotCostTheOthers) {
  std::vector<Sample> samples = measured(3, 40, Truth::OfFeatures, 7);
  const CostModel without = taught(samples);
  samples.insert(samples.begin() + 5, samples.front());
  samples[5].features[4] = std::numeric_limits<float>::infinity();
  CostModel with;
  EXPECT_FALSE(with.add(samples));
  const std::vector<std::vector<float>> rows = rows_of(measured(1, 9, Truth::OfFeatures, 8));
  EXPECT_EQ(with.for_group(own).predict(rows), without.for_group(own).predict(rows));
}

}  // namespace
}  // namespace tw::cost_model
