// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/prediction_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

class PredictionCaches : public testing::Test {
 protected:
  /// Returns a function that counts its calls. Its nth call predicts a time of n + 0.1 ns.
  Predict counted() {
    return [this](const dsl::Workload&, Precision) -> Result<Predicted> {
      ++asked_;
      if (fails_) return fail(ErrorCode::Unsupported, "[space] no strategy has these layouts");
      return Predicted{"tw1\n", asked_ + 0.1, asked_ + 0.05, asked_ + 0.2};
    };
  }
  PredictionCache cache(const std::string& version = "1") const {
    return PredictionCache::open(path_, version);
  }
  double predicted_ns(const PredictionCache& cache, Precision precision = Precision::Full) {
    return cache.remembering(counted())(workload_, precision)->analytic_ns;
  }

  Folder folder_;
  const std::string path_ = folder_ / "predictions.json";
  const dsl::Workload workload_ = workload_of(small);
  int asked_ = 0;
  bool fails_ = false;
};

TEST_F(PredictionCaches, AWorkloadIsPredictedOnceInAllRuns) {
  const PredictionCache first = cache();
  EXPECT_EQ(predicted_ns(first), 1.1);
  EXPECT_EQ(predicted_ns(first), 1.1);
  ASSERT_TRUE(first.write());
  EXPECT_EQ(predicted_ns(cache()), 1.1);
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(cache().remembering(counted())(workload_, Precision::Full)->schedule, "tw1\n");
  EXPECT_EQ(cache().remembering(counted())(workload_, Precision::Full)->hot_ns, 1.05);
  EXPECT_EQ(cache().remembering(counted())(workload_, Precision::Full)->expected_ns, 1.2);
}

TEST_F(PredictionCaches, OtherErrorsAreOtherPredictions) {
  const PredictionCache all = cache();
  for (int i = 0; i < 2; ++i)
    for (const double most_error : {1e-5, 7e-6})
      ASSERT_TRUE(all.remembering(counted(), most_error)(workload_, Precision::Full));
  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(predicted_ns(all), 3.1);
}

TEST_F(PredictionCaches, AFullPredictionReplacesARoughOne) {
  const PredictionCache first = cache();
  EXPECT_EQ(predicted_ns(first, Precision::Rough), 1.1);
  EXPECT_EQ(predicted_ns(first, Precision::Rough), 1.1);
  ASSERT_TRUE(first.write());
  EXPECT_EQ(predicted_ns(cache(), Precision::Rough), 1.1);
  const PredictionCache second = cache();
  EXPECT_EQ(predicted_ns(second, Precision::Full), 2.1);
  EXPECT_EQ(predicted_ns(second, Precision::Rough), 2.1);
  ASSERT_TRUE(second.write());
  EXPECT_EQ(predicted_ns(cache(), Precision::Full), 2.1);
}

TEST_F(PredictionCaches, LayoutsAreAnotherWorkload) {
  const PredictionCache all = cache();
  const Predict predict = all.remembering(counted());
  dsl::Workload asked = workload_;
  asked.layouts = dsl::parse_layouts("a=BA").value();
  EXPECT_NE(predict(workload_, Precision::Full)->analytic_ns,
            predict(asked, Precision::Full)->analytic_ns);
}

TEST_F(PredictionCaches, AnotherVersionPredictsAnewAndReplacesTheFile) {
  const PredictionCache before = cache("1");
  predicted_ns(before);
  ASSERT_TRUE(before.write());
  const PredictionCache after = cache("2");
  EXPECT_EQ(predicted_ns(after), 2.1);
  ASSERT_TRUE(after.write());
  EXPECT_EQ(predicted_ns(cache("1")), 3.1);
}

TEST_F(PredictionCaches, Fault15_ADamagedFileIsNone) {
  const PredictionCache written = cache();
  predicted_ns(written);
  ASSERT_TRUE(written.write());
  std::ifstream file(path_, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  file.close();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 1;
    std::ofstream(path_, std::ios::binary) << damaged;
    asked_ = 10;
    EXPECT_EQ(predicted_ns(cache()), 11.1) << i;
  }
}

TEST_F(PredictionCaches, AFileThatOthersMayWriteIsNone) {
  const PredictionCache written = cache();
  predicted_ns(written);
  ASSERT_TRUE(written.write());
  std::filesystem::permissions(path_, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(predicted_ns(cache()), 2.1);
}

TEST_F(PredictionCaches, ErrorsAreNotKept) {
  const PredictionCache written = cache();
  fails_ = true;
  EXPECT_FALSE(written.remembering(counted())(workload_, Precision::Full));
  fails_ = false;
  EXPECT_EQ(predicted_ns(written), 2.1);
  EXPECT_EQ(predicted_ns(written), 2.1);
}

TEST_F(PredictionCaches, WithoutAPathNothingIsWritten) {
  const PredictionCache none = PredictionCache::open("", "1");
  predicted_ns(none);
  EXPECT_TRUE(none.write());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST(PredictorVersion, NamesWhatPredictionsDependOn) {
  Target target = host_target();
  const std::string version = predictor_version(target, 1);
  EXPECT_EQ(predictor_version(target, 1), version);
  EXPECT_NE(predictor_version(target, 2), version);
  target.machine.core.vector_bytes *= 2;
  EXPECT_NE(predictor_version(target, 1), version);
}

}  // namespace
}  // namespace tw::tuner
