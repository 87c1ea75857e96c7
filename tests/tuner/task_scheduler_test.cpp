// SPDX-License-Identifier: Apache-2.0
// Tests tuning of several workloads with one budget.
#include "tuner/task_scheduler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "runtime/kernel.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

using testing::HasSubstr;

class TaskScheduling : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  }

  using Results = std::vector<Result<Tuned>>;
  Results run(const TuneOptions& options, const OnProgress& on_progress = {},
              const Environment& environment = test_environment()) {
    auto store = open_store(folder_ / "t.db");
    auto results = tune_all(tasks_, host_target(), options, store, environment, on_progress);
    if (!results) throw std::runtime_error(results.error().message);
    return std::move(*results);
  }
  std::vector<db::Record> records() {
    auto store = open_store(folder_ / "t.db");
    return store.query({}).value();
  }

  Folder folder_;
  std::vector<TaskSpec> tasks_ = {{workload_of("dense m=16 n=32 k=24 f32 fast"), 1, "first"},
                                  {workload_of("dense m=32 n=32 k=24 f32 fast"), 1, "second"},
                                  {workload_of("dense m=16 n=64 k=24 f32 fast"), 1, "third"}};
};

TEST_F(TaskScheduling, GivesOneResultATaskInOrder) {
  size_t tasks = 0;
  const Results results =
      run({.trials = 8, .batch = 4}, [&](const Progress& progress) { tasks = progress.tasks; });
  ASSERT_EQ(results.size(), tasks_.size());
  for (size_t i = 0; i < tasks_.size(); ++i) {
    ASSERT_TRUE(results[i]) << results[i].error().message;
    EXPECT_EQ(results[i]->best.workload, tasks_[i].workload.key());
    EXPECT_EQ(results[i]->progress.name, tasks_[i].name);
    EXPECT_EQ(results[i]->progress.finished, i);
    EXPECT_EQ(results[i]->ended, Ended::Trials);
    EXPECT_EQ(total(results[i]->progress), 8);
    EXPECT_GT(results[i]->spent_s, 0);
    EXPECT_TRUE(runtime::Kernel::load(results[i]->artifact));
  }
  EXPECT_EQ(tasks, 3u);
  EXPECT_EQ(records().size(), 3u * 8);
}

// Tasks take turns: no task has a third batch before all have two.
TEST_F(TaskScheduling, EveryTaskGetsAFirstShare) {
  std::map<std::string, int64_t> most;
  run({.trials = 12, .batch = 4}, [&](const Progress& p) {
    if (p.finished > 0) return;
    most[p.name] = std::max(most[p.name], total(p));
    if (total(p) <= 8) return;
    for (const TaskSpec& task : tasks_) EXPECT_GE(most[task.name], 4) << task.name;
  });
}

TEST_F(TaskScheduling, TheTaskThatCountsMostGetsMost) {
  tasks_[1].weight = 1000;
  std::atomic<int> interrupts = 0;
  Environment environment = test_environment();
  environment.interrupts = &interrupts;
  std::map<std::string, int64_t> trials;
  run(
      {.budget_s = 60, .batch = 4},
      [&](const Progress& p) {
        trials[p.name] = total(p);
        if (trials["second"] >= 32) interrupts = 1;
      },
      environment);
  EXPECT_GE(trials["second"], 32);
  EXPECT_LE(trials["first"], 16);
  EXPECT_LE(trials["third"], 16);
}

TEST_F(TaskScheduling, OneThatCannotBeTunedLeavesTheOthersAlone) {
  tasks_[1].workload = workload_of("dense m=262144 n=1048576 k=1 f32 fast");  // needs a tebibyte
  const Results results = run({.trials = 4, .batch = 4});
  EXPECT_TRUE(results[0]) << results[0].error().message;
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().code, ErrorCode::Environment);
  EXPECT_THAT(results[1].error().message, HasSubstr("too much for this machine"));
  EXPECT_TRUE(results[2]) << results[2].error().message;
}

// The clock jumps ahead by a year once the first task has trials.
TEST_F(TaskScheduling, ABudgetThatEndsBeforeATasksTurnIsSaid) {
  Environment environment = test_environment();
  bool late = false;
  environment.clock = [&late, clock = environment.clock] {
    return clock() + (late ? 365 * int64_t{86'400'000'000'000} : 0);
  };
  const Results results = run(
      {.budget_s = 60, .batch = 4}, [&](const Progress&) { late = true; }, environment);
  ASSERT_FALSE(results[2]);
  EXPECT_EQ(results[2].error().code, ErrorCode::NoCandidate);
  EXPECT_THAT(results[2].error().message,
              HasSubstr("the budget ended before its turn: give more time (--budget)"));
}

TEST_F(TaskScheduling, ATaskWhoseTurnDidNotComeHasWhatIsKnown) {
  const std::vector<TaskSpec> all = std::exchange(tasks_, {tasks_[2]});
  run({.trials = 4, .batch = 4});
  tasks_ = all;
  Environment environment = test_environment();
  bool late = false;
  environment.clock = [&late, clock = environment.clock] {
    return clock() + (late ? 365 * int64_t{86'400'000'000'000} : 0);
  };
  const Results results = run(
      {.budget_s = 60, .batch = 4}, [&](const Progress&) { late = true; }, environment);
  ASSERT_TRUE(results[2]) << results[2].error().message;
  EXPECT_EQ(results[2]->ended, Ended::FromDatabase);
  EXPECT_EQ(total(results[2]->progress), 0);
}

TEST_F(TaskScheduling, TasksWithoutAKernelComeFirst) {
  const std::vector<TaskSpec> all = std::exchange(tasks_, {tasks_[0]});
  run({.trials = 4, .batch = 4});
  tasks_ = all;
  std::vector<std::string> order;
  const Results results = run({.trials = 4, .seed = 2, .batch = 4}, [&](const Progress& p) {
    if (p.finished == 0 && std::find(order.begin(), order.end(), p.name) == order.end())
      order.push_back(p.name);
  });
  EXPECT_EQ(order, (std::vector<std::string>{"second", "third", "first"}));
  for (const auto& result : results) EXPECT_TRUE(result) << result.error().message;
}

TEST_F(TaskScheduling, Fault31_AnInterruptKeepsWhatThereIs) {
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

TEST_F(TaskScheduling, Fault33_ARunGoesOnFromTheOneBefore) {
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

TEST_F(TaskScheduling, WithoutEffortTheDatabaseAnswersWhatItCan) {
  {
    const std::vector<TaskSpec> all = std::exchange(tasks_, {tasks_[0]});
    run({.trials = 4, .batch = 4});
    tasks_ = all;
  }
  const Results known = run({.effort = Effort::None});
  EXPECT_TRUE(known[0]);
  EXPECT_FALSE(known[1]);
}

}  // namespace
}  // namespace tw::tuner
