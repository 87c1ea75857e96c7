// SPDX-License-Identifier: Apache-2.0
// Several workloads tuned with one budget.
#include "tuner/suite.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "runtime/kernel.h"
#include "schedules/schedule.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

using testing::HasSubstr;

class SuiteRun : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  }

  using Results = std::vector<Result<Tuned>>;
  Results run(const TuneOptions& options, const OnProgress& on_progress = {},
              const Environment& environment = test_environment()) {
    auto store = open_store(folder_ / "t.db");
    auto results = tune_all(goals_, host_target(), options, store, environment, on_progress);
    if (!results) throw std::runtime_error(results.error().message);
    return std::move(*results);
  }
  std::vector<db::Record> records() {
    auto store = open_store(folder_ / "t.db");
    return store.query({}).value();
  }

  Folder folder_;
  std::vector<Goal> goals_ = {{workload_of("dense m=16 n=32 k=24 f32 fast"), 1, "first"},
                              {workload_of("dense m=32 n=32 k=24 f32 fast"), 1, "second"},
                              {workload_of("dense m=16 n=64 k=24 f32 fast"), 1, "third"}};
};

TEST_F(SuiteRun, ARunnerRemembersReferences) {
  auto farm = Farm::start(host_target(), 1, 1, test_environment(), 10);
  ASSERT_TRUE(farm) << farm.error().message;
  std::vector<std::string> references;
  for (const Goal& goal : goals_) {
    const std::string plain = schedules::Schedule(goal.workload.compute).to_string();
    references.push_back(farm->build(goal.workload.key(), plain, {.packs = true}).value());
  }
  const auto ready_for = [&](size_t i) {
    return farm->prepare(goals_[i].workload.key(), references[i]).has_value();
  };
  const auto is_correct = [&](size_t i) {
    return farm->measure({.path = references[i], .verify_only = true}).value().status == "ok";
  };
  ASSERT_TRUE(ready_for(0) && ready_for(1));
  EXPECT_TRUE(is_correct(1));
  EXPECT_FALSE(is_correct(0)) << "of another workload";
  const std::string kept = references[0] + ".kept";
  std::filesystem::rename(references[0], kept);
  EXPECT_TRUE(ready_for(0));  // without its file
  std::filesystem::rename(kept, references[0]);
  EXPECT_TRUE(is_correct(0));
  EXPECT_TRUE(ready_for(1) && is_correct(1));
}

TEST_F(SuiteRun, GivesOneResultAGoalInOrder) {
  size_t goals = 0;
  const Results results =
      run({.trials = 8, .batch = 4}, [&](const Progress& progress) { goals = progress.goals; });
  ASSERT_EQ(results.size(), goals_.size());
  for (size_t i = 0; i < goals_.size(); ++i) {
    ASSERT_TRUE(results[i]) << results[i].error().message;
    EXPECT_EQ(results[i]->best.workload, goals_[i].workload.key());
    EXPECT_EQ(results[i]->progress.name, goals_[i].name);
    EXPECT_EQ(results[i]->progress.finished, i);
    EXPECT_EQ(results[i]->ended, Ended::Trials);
    EXPECT_EQ(total(results[i]->progress), 8 + 1);  // the winner is confirmed
    EXPECT_GT(results[i]->spent_s, 0);
    EXPECT_TRUE(runtime::Kernel::load(results[i]->artifact));
  }
  EXPECT_EQ(goals, 3u);
  EXPECT_EQ(records().size(), 3u * (8 + 1));
}

// All have two batches before any has three, in turn.
TEST_F(SuiteRun, EveryGoalGetsAFirstShare) {
  std::map<std::string, int64_t> most;
  run({.trials = 12, .batch = 4}, [&](const Progress& p) {
    if (p.finished > 0) return;
    most[p.name] = std::max(most[p.name], total(p));
    if (total(p) <= 8) return;
    for (const Goal& goal : goals_) EXPECT_GE(most[goal.name], 4) << goal.name;
  });
}

TEST_F(SuiteRun, TheGoalThatCountsMostGetsMost) {
  goals_[1].weight = 1000;
  std::atomic<int> interrupts = 0;
  Environment environment = test_environment();
  environment.interrupts = &interrupts;
  std::map<std::string, int64_t> trials;
  run(
      {.budget_s = 600, .batch = 4},
      [&](const Progress& p) {
        trials[p.name] = total(p);
        if (trials["second"] == 32) interrupts = 1;
      },
      environment);
  EXPECT_GE(trials["second"], 32);
  EXPECT_LE(trials["first"], 16);
  EXPECT_LE(trials["third"], 16);
}

TEST_F(SuiteRun, OneThatCannotBeTunedLeavesTheOthersAlone) {
  goals_[1].workload = workload_of("dense m=262144 n=1048576 k=1 f32 fast");  // a tebibyte
  const Results results = run({.trials = 4, .batch = 4});
  EXPECT_TRUE(results[0]) << results[0].error().message;
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().code, ErrorCode::Environment);
  EXPECT_THAT(results[1].error().message, HasSubstr("too much for this machine"));
  EXPECT_TRUE(results[2]) << results[2].error().message;
}

// The clock stands a year ahead once the first goal has trials.
TEST_F(SuiteRun, ABudgetThatEndsBeforeAGoalsTurnIsSaid) {
  Environment environment = test_environment();
  bool late = false;
  environment.clock = [&late, clock = environment.clock] {
    return clock() + (late ? 365 * int64_t{86'400'000'000'000} : 0);
  };
  const Results results = run(
      {.budget_s = 600, .batch = 4}, [&](const Progress&) { late = true; }, environment);
  ASSERT_FALSE(results[2]);
  EXPECT_EQ(results[2].error().code, ErrorCode::NoCandidate);
  EXPECT_THAT(results[2].error().message, HasSubstr("the budget ended before its turn"));
}

TEST_F(SuiteRun, AGoalWhoseTurnDidNotComeHasWhatIsKnown) {
  const std::vector<Goal> all = std::exchange(goals_, {goals_[2]});
  run({.trials = 4, .batch = 4});
  goals_ = all;
  Environment environment = test_environment();
  bool late = false;
  environment.clock = [&late, clock = environment.clock] {
    return clock() + (late ? 365 * int64_t{86'400'000'000'000} : 0);
  };
  const Results results = run(
      {.budget_s = 600, .batch = 4}, [&](const Progress&) { late = true; }, environment);
  ASSERT_TRUE(results[2]) << results[2].error().message;
  EXPECT_EQ(results[2]->ended, Ended::FromDatabase);
  EXPECT_EQ(total(results[2]->progress), 0);
}

TEST_F(SuiteRun, GoalsWithoutAKernelComeFirst) {
  const std::vector<Goal> all = std::exchange(goals_, {goals_[0]});
  run({.trials = 4, .batch = 4});
  goals_ = all;
  std::vector<std::string> order;
  const Results results = run({.trials = 4, .seed = 2, .batch = 4}, [&](const Progress& p) {
    if (p.finished == 0 && std::find(order.begin(), order.end(), p.name) == order.end())
      order.push_back(p.name);
  });
  EXPECT_EQ(order, (std::vector<std::string>{"second", "third", "first"}));
  for (const auto& result : results) EXPECT_TRUE(result) << result.error().message;
}

TEST_F(SuiteRun, Fault31_AnInterruptKeepsWhatThereIs) {
  std::atomic<int> interrupts = 0;
  Environment environment = test_environment();
  environment.interrupts = &interrupts;
  const Results results = run(
      {.batch = 4},
      [&](const Progress& p) {
        if (p.name == "second" && p.best_ns > 0) interrupts = 1;
      },
      environment);
  ASSERT_EQ(results.size(), 3u);
  ASSERT_TRUE(results[0]) << results[0].error().message;
  ASSERT_TRUE(results[1]) << results[1].error().message;
  EXPECT_EQ(results[1]->ended, Ended::Interrupted);
  ASSERT_FALSE(results[2]);
  EXPECT_EQ(results[2].error().code, ErrorCode::Interrupted);
  EXPECT_EQ(static_cast<int64_t>(records().size()),
            total(results[0]->progress) + total(results[1]->progress));
}

TEST_F(SuiteRun, Fault33_ARunGoesOnFromTheOneBefore) {
  run({.trials = 4, .batch = 4});
  const Results again = run({.trials = 4, .seed = 2, .batch = 4});
  std::set<std::pair<std::string, std::string>> schedules;
  for (const db::Record& record : records()) schedules.insert({record.workload, record.schedule});
  EXPECT_EQ(schedules.size(), 3u * 8);
  for (const auto& result : again) {
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->progress.known_trials, 4);
  }
}

TEST_F(SuiteRun, WithoutEffortTheDatabaseAnswersWhatItCan) {
  {
    const std::vector<Goal> all = std::exchange(goals_, {goals_[0]});
    run({.trials = 4, .batch = 4});
    goals_ = all;
  }
  const Results known = run({.effort = Effort::None});
  EXPECT_TRUE(known[0]);
  EXPECT_FALSE(known[1]);
}

}  // namespace
}  // namespace tw::tuner
