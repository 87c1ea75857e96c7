// SPDX-License-Identifier: Apache-2.0
#include "cost_model/cost_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "base/random.h"
#include "tests/cost_model/programs.h"

namespace tw::cost_model {
namespace {

// Rows as a CPU's programs have them; the truth follows column 3.
std::vector<float> random_row(Random& random) {
  std::vector<float> row(feature_count());
  for (size_t f = 0; f < row.size(); ++f)
    if (!feature_table()[f].name.starts_with("gpu_")) row[f] = static_cast<float>(random.unit());
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
                                                        : 0.1 + s.features[3] * s.features[3];
      s.throughput = quality * std::pow(10.0, static_cast<double>(g));  // groups differ in scale
      samples.push_back(std::move(s));
    }
  return samples;
}

double correlation_on_new_rows(const CostModel& model) {
  const std::vector<Sample> test = measured(1, 60, Truth::OfFeatures, 99);
  std::vector<std::vector<float>> rows;
  std::vector<double> throughputs;
  for (const Sample& s : test) {
    rows.push_back(s.features);
    throughputs.push_back(s.throughput);
  }
  return spearman(model.predict(rows, 64).mean, throughputs).value_or(0);
}

/// Path of a temporary file of this process. Tests run side by side, each with files of its own.
std::string temporary(const std::string& name) {
  const std::string own = "tw_cost_model_" + std::to_string(getpid()) + "_" + name;
  return (std::filesystem::path(::testing::TempDir()) / own).string();
}

/// Rows whose column 5 is above 0.7 fail, however fast they are by the analytic model. At most
/// `failures` of them are among the samples.
std::vector<Sample> with_failures(size_t samples, size_t failures, uint64_t seed) {
  std::vector<Sample> result;
  for (Sample& s : measured(1, samples, Truth::OfAnalytic, seed)) {
    s.valid = s.features[5] <= 0.7F;
    if (!s.valid && failures == 0) continue;
    failures -= s.valid ? 0 : 1;
    result.push_back(std::move(s));
  }
  return result;
}

/// Number of failing rows among the 20 with the best scores of 200 new rows.
int failing_picks(const CostModel& model) {
  std::vector<std::vector<float>> rows;
  for (const Sample& s : measured(1, 200, Truth::OfAnalytic, 77)) rows.push_back(s.features);
  const std::vector<double> scores = model.predict(rows, 64).mean;
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return static_cast<int>(std::count_if(order.begin(), order.begin() + 20,
                                        [&](size_t i) { return rows[i][5] > 0.7F; }));
}

TEST(CostModel, WhatIsLikelyToFailIsPickedLater) {
  CostModel naive, unsure, warned;
  ASSERT_TRUE(naive.update(with_failures(200, 0, 5)));
  ASSERT_TRUE(unsure.update(with_failures(200, 4, 5)));
  ASSERT_TRUE(warned.update(with_failures(200, 200, 5)));
  ASSERT_GE(failing_picks(naive), 4);
  EXPECT_EQ(failing_picks(unsure), failing_picks(naive));  // too little evidence
  EXPECT_LE(failing_picks(warned), 1);
}

TEST(CostModel, StartsWithTheAnalyticModel) {
  const CostModel model;
  EXPECT_EQ(model.source(), Source::Prior);
  const auto good =
      extract_features(testing::conv({.pixels = 14, .vectors = 2}), testing::avx512(), 1);
  const auto bad =
      extract_features(testing::conv({.pixels = 1, .vectors = 1}), testing::avx512(), 1);
  const std::vector<std::vector<float>> rows = {*bad, *good};
  const std::vector<double> scores = model.predict(rows, 64).mean;
  EXPECT_LT(scores[0], scores[1]);
  EXPECT_EQ(model.predict_valid(rows), (std::vector<double>{1, 1}));
  EXPECT_TRUE(model.predict({}, 0).mean.empty());
}

TEST(CostModel, WaitsForEnoughSamples) {
  CostModel model;
  ASSERT_TRUE(model.update(measured(1, 20, Truth::OfFeatures, 1)));
  EXPECT_EQ(model.source(), Source::Prior);
  EXPECT_EQ(model.quality().note, "20 measurements, 32 needed to learn");
  ASSERT_TRUE(model.update(measured(1, 60, Truth::OfFeatures, 2)));
  EXPECT_EQ(model.quality().samples, 80u);
  EXPECT_EQ(model.source(), Source::Learned) << model.quality().note;
}

TEST(CostModel, LearnsWhatTheAnalyticModelDoesNotKnow) {
  CostModel model;
  ASSERT_TRUE(model.update(measured(4, 80, Truth::OfFeatures, 3)));
  ASSERT_EQ(model.source(), Source::Learned) << model.quality().note;
  EXPECT_GT(model.quality().learned.spearman, 0.9);
  EXPECT_LT(model.quality().learned.regret, 0.05);
  EXPECT_LT(model.quality().prior.spearman, 0.3);
  EXPECT_EQ(model.quality().learned.groups, 4u);  // each held out once
  EXPECT_TRUE(model.quality().note.empty());
  EXPECT_GT(correlation_on_new_rows(model), 0.9);
}

size_t column(std::string_view name) {
  const auto table = feature_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const FeatureInfo& feature) { return feature.name == name; });
  return static_cast<size_t>(found - table.begin());
}

/// Kernels of one workload, whose loads take `factor` times as long as the analytic model thinks.
std::vector<Sample> with_slow_loads(size_t count, double factor, uint64_t seed) {
  Random random(seed);
  std::vector<Sample> samples;
  for (size_t i = 0; i < count; ++i) {
    Sample s;
    s.features.resize(feature_count());
    const auto loads = static_cast<float>(random.unit());
    s.features[column("spent_loads")] = loads;
    s.features[column("spent_arithmetic")] = 1 - loads;
    s.features[column("expected_ns")] = static_cast<float>(15 + 0.2 * random.unit());
    s.throughput = std::exp2(-ordering_time_of(s.features)) * std::pow(factor, -loads);
    samples.push_back(std::move(s));
  }
  return samples;
}

// Eight trials are enough where they say the same; what they say is held out from the fit.
TEST(CostModel, TheFirstBatchFitsTheAnalyticModel) {
  CostModel model;
  ASSERT_TRUE(model.add(with_slow_loads(8, 2, 21)));
  EXPECT_EQ(model.source(), Source::Fitted);
  EXPECT_GT(model.quality().fitted.spearman, model.quality().prior.spearman);
  EXPECT_EQ(model.quality().of(Source::Fitted).spearman, model.quality().fitted.spearman);
  std::vector<std::vector<float>> rows;
  std::vector<double> throughputs;
  for (const Sample& s : with_slow_loads(60, 2, 22)) {
    rows.push_back(s.features);
    throughputs.push_back(s.throughput);
  }
  const Scores scores = model.predict(rows, 8);
  EXPECT_GT(spearman(scores.mean, throughputs).value_or(0), 0.95);
  EXPECT_GT(scores.spread[0], 0);
  EXPECT_EQ(CostModel().predict(rows, 8).spread[0], 0);
}

TEST(CostModel, TheAnalyticModelStaysWhereTrialsAgreeWithIt) {
  CostModel model;
  ASSERT_TRUE(model.add(with_slow_loads(40, 1, 23)));
  EXPECT_EQ(model.source(), Source::Prior);
  EXPECT_DOUBLE_EQ(model.quality().prior.spearman, 1);
}

TEST(CostModel, TrialsOfOtherMachinesFitNothing) {
  std::vector<Sample> samples = with_slow_loads(40, 2, 24);
  for (Sample& s : samples) s.same_machine = false;
  CostModel model;
  ASSERT_TRUE(model.add(samples));
  EXPECT_EQ(model.source(), Source::Prior);
}

TEST(CostModel, TreesBeginWhereTheFitEnds) {
  CostModel model;
  ASSERT_TRUE(model.update(with_slow_loads(60, 2, 25)));
  EXPECT_NE(model.source(), Source::Prior);
  EXPECT_GT(model.quality().without_trees.spearman, 0.95) << "that of the fitted model";
}

TEST(CostModel, HeldOutSamplesJudgeWithinKnownGroups) {
  CostModelOptions options;
  options.hold_out = HoldOut::Samples;
  CostModel model(options);
  ASSERT_TRUE(model.update(measured(4, 120, Truth::OfFeatures, 3)));
  EXPECT_EQ(model.quality().learned.groups, 12u);  // 4 groups in 3 folds
  EXPECT_GT(model.quality().learned.spearman, 0.9);
}

TEST(CostModel, StaysWithTheAnalyticModelWhereThatIsBetter) {
  CostModel model;
  ASSERT_TRUE(model.update(measured(4, 12, Truth::OfAnalytic, 4)));
  EXPECT_EQ(model.source(), Source::Prior);
  EXPECT_DOUBLE_EQ(model.quality().prior.spearman, 1);
  EXPECT_NE(model.quality().note.find("the prior model orders better"), std::string::npos);
}

TEST(CostModel, NoiseIsNotLearned) {
  std::vector<Sample> samples = measured(4, 30, Truth::OfAnalytic, 5);
  Random random(6);
  for (Sample& s : samples)
    s.throughput = std::exp2(-ordering_time_of(s.features)) * (0.9 + 0.2 * random.unit());
  CostModel model;
  ASSERT_TRUE(model.update(samples));
  EXPECT_EQ(model.source(), Source::Prior);
}

TEST(CostModel, EqualSeedsPredictAlike) {
  CostModel a, b;
  ASSERT_TRUE(a.update(measured(3, 40, Truth::OfFeatures, 7)));
  ASSERT_TRUE(b.update(measured(3, 40, Truth::OfFeatures, 7)));
  Random random(8);
  const std::vector<std::vector<float>> rows = {random_row(random), random_row(random)};
  EXPECT_EQ(a.predict(rows, 64).mean, b.predict(rows, 64).mean);
  EXPECT_EQ(a.quality().learned.spearman, b.quality().learned.spearman);
}

TEST(CostModel, FailuresTeachValidity) {
  std::vector<Sample> samples = measured(2, 100, Truth::OfFeatures, 9);
  for (Sample& s : samples) {
    s.valid = s.features[5] < 0.7;
    if (!s.valid) s.throughput = 0;
  }
  CostModel model;
  ASSERT_TRUE(model.update(samples));
  EXPECT_GT(model.quality().failures, 20u);
  Random random(10);
  std::vector<std::vector<float>> rows = {random_row(random), random_row(random)};
  rows[0][5] = 0.2F;
  rows[1][5] = 0.95F;
  const std::vector<double> p = model.predict_valid(rows);
  EXPECT_GT(p[0], 0.8);
  EXPECT_LT(p[1], 0.2);
}

TEST(CostModel, FewFailuresCountAsAShare) {
  std::vector<Sample> samples = measured(1, 10, Truth::OfFeatures, 11);
  samples[0].valid = samples[1].valid = false;
  CostModel model;
  ASSERT_TRUE(model.update(samples));
  Random random(12);
  const std::vector<std::vector<float>> rows = {random_row(random)};
  EXPECT_EQ(model.predict_valid(rows), std::vector<double>{0.8});
}

TEST(CostModel, Fault44_EqualThroughputsFallBackToTheAnalyticModel) {
  std::vector<Sample> samples = measured(1, 50, Truth::OfFeatures, 13);
  for (Sample& s : samples) s.throughput = 3;
  CostModel model;
  ASSERT_TRUE(model.update(samples));
  EXPECT_EQ(model.source(), Source::Prior);
  EXPECT_NE(model.quality().note.find("all 50 labels are 1"), std::string::npos);
}

TEST(CostModel, Fault44_OneSampleFallsBackToTheAnalyticModel) {
  CostModelOptions options;
  options.least_samples = 1;
  CostModel model(options);
  ASSERT_TRUE(model.update(measured(1, 1, Truth::OfFeatures, 14)));
  EXPECT_EQ(model.source(), Source::Prior);
  EXPECT_NE(model.quality().note.find("1 rows given"), std::string::npos);
}

TEST(CostModel, Fault44_GroupsOfOneSampleFallBackToTheAnalyticModel) {
  CostModel model;
  ASSERT_TRUE(
      model.update(measured(40, 1, Truth::OfFeatures, 15)));  // each is the best of its group
  EXPECT_EQ(model.source(), Source::Prior);
}

TEST(CostModel, Fault44_SamplesThatAreNotNumbersAreRefusedAsAWhole) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int what : {0, 1, 2, 3, 4, 5}) {
    std::vector<Sample> samples = measured(1, 3, Truth::OfFeatures, 16);
    if (what == 0) samples[2].features[4] = nan;
    if (what == 1) samples[2].throughput = nan;
    if (what == 2) samples[2].throughput = 0;
    if (what == 3) samples[2].features.pop_back();
    if (what == 4) samples[2].weight = -1;
    if (what == 5) samples[2].weight = 0;
    CostModel model;
    const Status status = model.update(samples);
    ASSERT_FALSE(status) << what;
    EXPECT_EQ(status.error().code, ErrorCode::Invalid);
    EXPECT_NE(status.error().message.find("1 of 3 samples are refused: sample 2"),
              std::string::npos);
    EXPECT_EQ(model.quality().samples, 2u);
  }
}

TEST(CostModel, Fault92_ARefusedSampleDoesNotCostTheOthers) {
  std::vector<Sample> samples = measured(3, 40, Truth::OfFeatures, 7);
  CostModel without, with;
  ASSERT_TRUE(without.update(samples));
  samples.insert(samples.begin() + 5, samples.front());
  samples[5].features[4] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(with.update(samples));
  EXPECT_EQ(with.quality().samples, without.quality().samples);
  EXPECT_EQ(with.source(), without.source());
}

TEST(CostModel, SavedAndLoadedPredictsTheSame) {
  std::vector<Sample> samples = measured(3, 60, Truth::OfFeatures, 17);
  for (Sample& s : samples) s.valid = s.features[5] < 0.7;
  CostModel model;
  ASSERT_TRUE(model.update(samples));
  ASSERT_EQ(model.source(), Source::Learned) << model.quality().note;
  const std::string path = temporary("round_trip");
  ASSERT_TRUE(model.save(path));
  const auto loaded = CostModel::load(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  Random random(18);
  const std::vector<std::vector<float>> rows = {random_row(random), random_row(random)};
  EXPECT_EQ(loaded->predict(rows, 64).mean, model.predict(rows, 64).mean);
  EXPECT_EQ(loaded->predict(rows, 64).spread, model.predict(rows, 64).spread);
  EXPECT_EQ(loaded->predict_valid(rows), model.predict_valid(rows));
  EXPECT_EQ(loaded->source(), Source::Learned);
  EXPECT_EQ(loaded->quality().learned.regret, model.quality().learned.regret);
  EXPECT_EQ(loaded->quality().samples, model.quality().samples);
  std::filesystem::remove(path);
}

TEST(CostModel, AFitIsSavedAndLoaded) {
  CostModel model;
  ASSERT_TRUE(model.add(with_slow_loads(16, 2, 26)));
  ASSERT_EQ(model.source(), Source::Fitted);
  const std::string path = temporary("fit");
  ASSERT_TRUE(model.save(path));
  const auto loaded = CostModel::load(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->source(), Source::Fitted);
  const std::vector<std::vector<float>> rows = {with_slow_loads(1, 2, 27)[0].features};
  EXPECT_EQ(loaded->predict(rows, 8).mean, model.predict(rows, 8).mean);
  EXPECT_EQ(loaded->predict(rows, 8).spread, model.predict(rows, 8).spread);
}

std::string saved_bytes() {
  CostModel model;
  EXPECT_TRUE(model.update(measured(3, 40, Truth::OfFeatures, 19)));
  const std::string path = temporary("bytes");
  EXPECT_TRUE(model.save(path));
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::filesystem::remove(path);
  return bytes.str();
}

Result<CostModel> load_bytes(const std::string& bytes) {
  const std::string path = temporary("damaged");
  std::ofstream(path, std::ios::binary) << bytes;
  auto model = CostModel::load(path);
  std::filesystem::remove(path);
  return model;
}

TEST(CostModel, Fault45_TruncatedFilesAreRefused) {
  const std::string bytes = saved_bytes();
  ASSERT_TRUE(load_bytes(bytes));
  for (const size_t length : {size_t{0}, size_t{10}, bytes.find('\n'), bytes.find('\n') + 1,
                              bytes.size() / 2, bytes.size() - 1}) {
    const auto model = load_bytes(bytes.substr(0, length));
    ASSERT_FALSE(model) << length;
    EXPECT_EQ(model.error().code, ErrorCode::Invalid);
  }
}

TEST(CostModel, Fault45_AnyChangedByteIsNoticed) {
  const std::string bytes = saved_bytes();
  for (size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 97) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    EXPECT_FALSE(load_bytes(changed)) << "byte " << i;
  }
}

TEST(CostModel, Fault45_OtherFeatureVersionsAreRefused) {
  std::string bytes = saved_bytes();
  const std::string mark = " features " + std::to_string(feature_version) + " ";
  bytes.replace(bytes.find(mark), mark.size(), " features 9999 ");
  const auto model = load_bytes(bytes);
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("features 9999"), std::string::npos)
      << model.error().message;
}

TEST(CostModel, MissingFilesAndFoldersAreNamed) {
  EXPECT_NE(CostModel::load("/nonexistent/model").error().message.find("/nonexistent/model"),
            std::string::npos);
  EXPECT_FALSE(CostModel().save("/nonexistent/model"));
}

TEST(CostModel, ADamagedFileIsNoReasonNotToLearnAgain) {
  CostModel model = load_bytes("rubbish").value_or(CostModel());
  ASSERT_TRUE(model.update(measured(3, 40, Truth::OfFeatures, 20)));
  EXPECT_EQ(model.source(), Source::Learned);
}

}  // namespace
}  // namespace tw::cost_model
