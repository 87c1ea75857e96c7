// SPDX-License-Identifier: Apache-2.0
// Tests runs on a farm whose only station is in the client's process, `tuning_worker farm`. The
// jobs are real. Dask takes no part; tests/tools/farm_test.py tests farms with Dask.
#include "tuner/workers/farm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tuner/networks.h"
#include "tests/tuner/tuning.h"
#include "tuner/network/network.h"
#include "tuner/workers/device.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;
using testing::Each;
using testing::Field;
using testing::HasSubstr;

constexpr const char* measures =
    R"([{"address": "a", "resources": ["device", "DEVICE", "VERSION", "fast"]}])";
constexpr const char* measures_and_builds =
    R"([{"address": "a", "resources": ["device", "DEVICE", "VERSION"]},
        {"address": "b", "resources": ["build", "VERSION"]},
        {"address": "c", "resources": ["build", "VERSION"]}])";

class OnAFarm : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  }

  static FarmOptions options_of(const std::string& members, const std::string& ends = "",
                                int number = -1) {
    return {.client = {TW_TUNING_WORKER, "farm", members, ends, std::to_string(number)}};
  }

  Result<Tuned> tuned_on(const FarmOptions& options, int64_t trials = 4) {
    TW_TRY(const Farm farm, open_farm(options, environment_, 60));
    const TuneOptions tuning{.budget_s = 600, .trials = trials, .timeout_s = 60};
    TW_TRY(Workers workers, start_workers(farm, 1, environment_, tuning.timeout_s));
    db::Store store = open_store(folder_ / "t.db");
    TW_TRY(std::vector<Result<Tuned>> results,
           tune_all({{workload_}}, farm.target, tuning, store, environment_, {}, workers));
    return std::move(results[0]);
  }

  std::vector<db::Record> stored() { return open_store(folder_ / "t.db").query({}).value(); }

  Folder folder_;
  dsl::Workload workload_ = workload_of(small);
  Environment environment_ = test_environment();
};

TEST_F(OnAFarm, KernelsBuiltHereAreMeasuredThere) {
  const auto tuned = tuned_on(options_of(measures));
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Trials);
  EXPECT_GT(tuned->best.latency_ns, 0);
  EXPECT_GT(tuned->best.peak_gflops, 0);
  EXPECT_FALSE(tuned->best.samples_ns.empty());
  const std::vector<db::Record> records = stored();
  EXPECT_GE(records.size(), 4u);
  EXPECT_THAT(records, Each(Field(&db::Record::device, device_text(host_target()))));
  for (const db::Record& record : records) {
    if (record.status == TrialStatus::Ok) {
      EXPECT_EQ(record.host, "fedcba9876543210");
    }
  }
  EXPECT_FALSE(tuned->artifact.object.empty());
}

TEST_F(OnAFarm, MembersThatBuildAreGivenSharesOfARequest) {
  const auto farm = open_farm(options_of(measures_and_builds), environment_, 60);
  ASSERT_TRUE(farm) << farm.error().message;
  EXPECT_EQ(farm->devices, 1u);
  EXPECT_EQ(farm->builders, 2u);
  const auto tuned = tuned_on(options_of(measures_and_builds));
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_NE(tuned->best.toolchain, "");
}

TEST_F(OnAFarm, TheLabelOrTheOnlyDeviceChooses) {
  auto options = options_of(measures);
  options.label = "fast";
  EXPECT_TRUE(open_farm(options, environment_, 60));
  options.label = "slow";
  const auto none = open_farm(options, environment_, 60);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::TryLater);
  EXPECT_THAT(none.error().message, HasSubstr("with the label slow; they have fast"));
  const auto several =
      open_farm(options_of(R"([{"address": "a", "resources": ["device", "DEVICE", "VERSION"]},
        {"address": "b", "resources": ["device", "device:0000000000000000", "VERSION"]}])"),
                environment_, 60);
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code, ErrorCode::Usage);
}

TEST_F(OnAFarm, Fault69_ATrialThatIsLostWithItsMemberIsARecordAndTheRunGoesOn) {
  const auto tuned = tuned_on(options_of(measures, "fault", 1));
  ASSERT_TRUE(tuned) << tuned.error().message;
  std::vector<std::string> reasons;
  for (const db::Record& record : stored())
    if (record.status == TrialStatus::Lost) reasons.push_back(record.reason);
  EXPECT_THAT(reasons, testing::ElementsAre("the test says so"));
}

TEST_F(OnAFarm, Fault69_AComparisonThatIsLostWithItsMemberIsLeftOut) {
  const auto farm = open_farm(options_of(measures, "fault comparison", 0), environment_, 60);
  ASSERT_TRUE(farm) << farm.error().message;
  const auto workers = start_workers(*farm, 1, environment_, 60);
  ASSERT_TRUE(workers) << workers.error().message;
  const std::string kernel = workers->artifacts->put("a kernel").value();
  const auto compared = workers->runner->compare({kernel, kernel});
  ASSERT_TRUE(compared) << compared.error().message;
  EXPECT_EQ(compared->error, "the test says so");
}

TEST_F(OnAFarm, Fault69_WhereTheFarmIsLostWhatWasMeasuredIsStored) {
  for (const char* how : {"lose", "end"}) {
    const size_t before = stored().size();
    const auto tuned = tuned_on(options_of(measures, how, 3), 8);
    ASSERT_FALSE(tuned);
    EXPECT_EQ(tuned.error().code, ErrorCode::TryLater) << tuned.error().message;
    EXPECT_THAT(tuned.error().message, HasSubstr("what was measured is stored"));
    EXPECT_EQ(stored().size(), before + 3);
  }
}

// No other round is tried, and no model is made from predictions.
TEST_F(OnAFarm, Fault69_ANetworkWhoseFarmIsLostEndsWithWhatWasMeasuredStored) {
  const auto farm = open_farm(options_of(measures, "lose", 3), environment_, 60);
  ASSERT_TRUE(farm) << farm.error().message;
  NetworkOptions options;
  options.tuning = {.budget_s = 600, .trials = 8, .timeout_s = 60};
  options.start_workers = [&](const TuneOptions& tuning) {
    return start_workers(*farm, 1, environment_, tuning.timeout_s);
  };
  const graph::Graph graph = two_convolutions();
  db::Store store = open_store(folder_ / "t.db");
  const auto tuned = tune_network(graph, farm->target, options, store, environment_, {});
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::TryLater) << tuned.error().message;
  EXPECT_THAT(tuned.error().message, HasSubstr("what was measured is stored"));
  // A candidate with the machine code of an earlier one is stored without a measurement.
  const std::vector<db::Record> records = store.query({}).value();
  const auto count = [&](TrialStatus status) {
    return std::ranges::count(records, status, &db::Record::status);
  };
  EXPECT_EQ(count(TrialStatus::Ok), 3);
  EXPECT_EQ(count(TrialStatus::Ok) + count(TrialStatus::Duplicate), std::ssize(records));
}

TEST_F(OnAFarm, Fault85_AReplyThatDoesNotDecodeIsAskedForOnceMore) {
  const auto tuned = tuned_on(options_of(measures, "garble", 1));
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_FALSE(tuned->progress.trials.contains("lost"));
  for (const db::Record& record : stored()) EXPECT_FALSE(db::proves_wrong(record.status));
}

TEST_F(OnAFarm, Fault85_AMemberWhoseRepliesDoNotDecodeEndsTheRunWithoutARecord) {
  const auto tuned = tuned_on(options_of(measures, "garble all", 2), 64);
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::TryLater) << tuned.error().message;
  EXPECT_THAT(tuned.error().message, HasSubstr("a member at here"));
  for (const db::Record& record : stored()) {
    EXPECT_FALSE(db::proves_wrong(record.status)) << record.reason;
    EXPECT_NE(record.status, TrialStatus::Lost);
  }
}

TEST_F(OnAFarm, Fault85_MembersOfAnotherVersionAreLeftOut) {
  const auto none = open_farm(
      options_of(R"([{"address": "a", "resources": ["device", "DEVICE"]}])"), environment_, 60);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Environment);
  EXPECT_THAT(none.error().message, HasSubstr("a speaks version 1, and this program " +
                                              farm_version() + ": install the same"));
  Notes notes;
  environment_.notes = &notes;
  const auto some = open_farm(
      options_of(R"([{"address": "a", "resources": ["device", "device:00", "version:1.1", "build"]},
                     {"address": "b", "resources": ["device", "DEVICE", "VERSION"]}])"),
      environment_, 60);
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_EQ(some->devices, 1u);
  EXPECT_EQ(some->builders, 0u);
  ASSERT_EQ(notes.all().size(), 1u);
  EXPECT_THAT(notes.all()[0].text, HasSubstr("a speaks version 1.1"));
}

TEST_F(OnAFarm, AFarmThatIsNotThereIsAnErrorAtOnce) {
  const auto farm = open_farm({.client = {folder_.script("client", "echo no scheduler; exit 75")}},
                              environment_, 60);
  ASSERT_FALSE(farm);
  EXPECT_EQ(farm.error().code, ErrorCode::TryLater);
  EXPECT_THAT(farm.error().message, HasSubstr("no scheduler"));
  const auto without =
      open_farm({.client = {folder_.script("none", "echo pip install; exit 7")}}, environment_, 60);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, ErrorCode::Environment);
  EXPECT_THAT(without.error().message, HasSubstr("pip install"));
}

TEST_F(OnAFarm, Fault68_AClientThatTalksNonsenseLosesTheFarm) {
  for (const char* said : {"garbage", "twf1\\377\\377\\377\\3770123456789abcdef"}) {
    const std::string client = folder_.script("c", fmt::format("printf '{}' >&3; sleep 100", said));
    const auto farm = open_farm({.client = {client}}, environment_, 60);
    ASSERT_FALSE(farm);
    EXPECT_EQ(farm.error().code, ErrorCode::TryLater) << farm.error().message;
  }
}

TEST_F(OnAFarm, Fault31_AnInterruptEndsAWaitAndTheNextJobHasANewClient) {
  const auto farm = open_farm(options_of(measures), environment_, 60);
  ASSERT_TRUE(farm) << farm.error().message;
  const std::atomic<int> interrupts = 2;
  Environment interrupted = environment_;
  interrupted.interrupts = &interrupts;
  auto workers = start_workers(*farm, 1, interrupted, 60);
  ASSERT_TRUE(workers);
  const auto cancelled = workers->runner->peak_gflops();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::Interrupted);
  const auto again = start_workers(*farm, 1, environment_, 60);
  ASSERT_TRUE(again);
  const auto peak = again->runner->peak_gflops();
  ASSERT_TRUE(peak) << peak.error().message;
  EXPECT_GT(*peak, 0);
}

}  // namespace
}  // namespace tw::tuner
