// SPDX-License-Identifier: Apache-2.0
// Tests tuning of demands with a tune_all() that returns made-up trials.
#include "tuner/demand.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "db/demand.h"
#include "tests/tuner/tuning.h"
#include "tuner/trial_record.h"

namespace tw::tuner {
namespace {

using testing::ElementsAre;

class WorkingOffDemand : public testing::Test {
 protected:
  WorkingOffDemand() {
    environment_.clock = [this] { return now_ns_; };
    target_.machine.cores = 4;
  }

  static std::string dense(int64_t m) { return fmt::format("dense m={} n=64 k=64 f32 fast", m); }

  /// Returns a demand of a network whose kernels have these sizes `m` and times in ns.
  db::Demand demand(char source, const std::vector<std::pair<int64_t, double>>& kernels) const {
    db::Demand demand = demand_of(workload_of(dense(8)), target_, 1, nullptr, 1'700'000'000'000);
    demand.source = std::string(64, source);
    demand.name = std::string("network ") + source;
    demand.kernels.clear();
    demand.latency_ns = 0;
    for (const auto& [m, ns] : kernels) {
      db::WantedKernel kernel;
      kernel.op = "dense";
      kernel.workload = workload_of(dense(m)).key();
      kernel.latency_ns = ns;
      kernel.schedule = "tw1\n";
      demand.kernels.push_back(kernel);
      demand.latency_ns += ns;
    }
    return demand;
  }

  Result<DemandRun> run(const TuneOptions& options) {
    db::Store store = open_store(folder_ / "t.db");
    for (const db::Demand& demand : demands_)
      if (!db::keep_demand(store, demand)) throw std::runtime_error("it is not kept");
    return tune_demand(target_, options, store, environment_, {},
                       [&](const std::vector<TaskSpec>& tasks, const TuneOptions& wave,
                           const OnProgress&) -> Result<std::vector<Result<Tuned>>> {
                         waves_.push_back({tasks, wave});
                         return answer(tasks, wave, store);
                       });
  }

  /// Stands in for tune_all(). Stores a trial of 10 us for each kernel and lets `spent_share_` of
  /// the budget pass. The kernel `fails_` gets an error instead.
  std::vector<Result<Tuned>> answer(const std::vector<TaskSpec>& tasks, const TuneOptions& wave,
                                    db::Store& store) {
    std::vector<Result<Tuned>> results;
    for (const TaskSpec& task : tasks) {
      if (task.workload.text() == fails_) {
        results.push_back(fail(ErrorCode::NoCandidate, "no candidate"));
        continue;
      }
      MeasureReply reply{TrialStatus::Ok};
      reply.latency_ns = reply.low_ns = reply.high_ns = 1e4;
      reply.samples_ns = {1e4};
      db::Record record = trial_record(task.workload, target_, wave.threads, "fake-1.0",
                                       "tw1\nsplit out m 2\n", reply, 1e3);
      record.host = "here";
      record.session = fmt::format("session {}", waves_.size());
      record.program_version = "0";
      record.created_ms = 1'700'000'000'000;
      record = db::seal(std::move(record));
      EXPECT_TRUE(store.append({&record, 1}));
      Tuned tuned;
      tuned.best = record;
      tuned.ended = ended_;
      results.push_back(std::move(tuned));
    }
    now_ns_ += static_cast<int64_t>(spent_share_ * wave.budget_s * 1e9);
    return results;
  }

  std::vector<std::string> names_of_wave(size_t wave) const {
    std::vector<std::string> names;
    for (const TaskSpec& task : waves_.at(wave).first) names.push_back(task.workload.key());
    return names;
  }

  using TrialStatus = db::TrialStatus;
  Folder folder_;
  Target target_ = host_target();
  Environment environment_ = test_environment();
  int64_t now_ns_ = 1'000'000'000;
  std::vector<db::Demand> demands_;
  double spent_share_ = 1;        ///< of the budget of each wave
  std::string fails_;             ///< the workload that has no candidate
  Ended ended_ = Ended::Plateau;  ///< of all tasks
  std::vector<std::pair<std::vector<TaskSpec>, TuneOptions>> waves_;
};

TEST_F(WorkingOffDemand, WhatSavesMostComesFirst) {
  demands_ = {demand('a', {{8, 1e5}, {16, 9e5}, {32, 5e5}})};
  const auto done = run({.budget_s = 600});
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_EQ(waves_.size(), 1u);
  EXPECT_THAT(names_of_wave(0),
              ElementsAre(workload_of(dense(16)).key(), workload_of(dense(32)).key(),
                          workload_of(dense(8)).key()));
  EXPECT_EQ(waves_[0].first[0].schedule, "tw1\n") << "the predicted schedule is measured first";
  EXPECT_FALSE(waves_[0].second.builds_winners);
  EXPECT_EQ(done->tuned, 3u);
  EXPECT_EQ(done->ended, Ended::Plateau);
}

TEST_F(WorkingOffDemand, WhatIsOnlyPredictedIsTunedWithAnyEffort) {
  for (const Effort effort : {Effort::Quick, Effort::Normal, Effort::Full}) {
    waves_.clear();
    demands_ = {demand(static_cast<char>('a' + static_cast<int>(effort)),
                       {{8 * (1 + static_cast<int>(effort)), 1e5}})};
    const auto done = run({.budget_s = 600, .effort = effort});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(waves_.size(), 1u) << static_cast<int>(effort);
  }
}

TEST_F(WorkingOffDemand, AShortBudgetIsForAFewKernels) {
  demands_ = {demand('a', {{8, 1e5}, {16, 9e5}, {32, 5e5}})};
  ended_ = Ended::Budget;
  const auto done = run({.budget_s = 9});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(names_of_wave(0),
              ElementsAre(workload_of(dense(16)).key(), workload_of(dense(32)).key()));
  EXPECT_EQ(done->ended, Ended::Budget);
}

TEST_F(WorkingOffDemand, ACallOfEachNetworkCountsOnce) {
  demands_ = {demand('a', {{8, 1e3}}), demand('b', {{8, 1e3}, {16, 1e9}})};
  ASSERT_TRUE(run({.budget_s = 600}));
  ASSERT_EQ(waves_[0].first.size(), 2u);
  // The first network spends all its time in the first kernel, the second network nearly all in the
  // other kernel.
  EXPECT_NEAR(waves_[0].first[0].weight * 1e3, 1, 1e-3);
  EXPECT_NEAR(waves_[0].first[1].weight * 1e9, 1, 1e-3);
}

TEST_F(WorkingOffDemand, WorksForItsOwnClassOfDevices) {
  demands_ = {demand('a', {{8, 1e5}}), demand('b', {{16, 1e5}}), demand('c', {{32, 1e5}})};
  demands_[1].device = "Other CPU";
  demands_[2].threads = 64;
  const auto done = run({.budget_s = 600});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->before.size(), 1u);
  EXPECT_THAT(names_of_wave(0), ElementsAre(workload_of(dense(8)).key()));
}

TEST_F(WorkingOffDemand, EachNumberOfThreadsHasItsWave) {
  demands_ = {demand('a', {{8, 1e5}}), demand('b', {{16, 1e5}})};
  demands_[1].threads = 4;
  ASSERT_TRUE(run({.budget_s = 600}));
  ASSERT_EQ(waves_.size(), 2u);
  EXPECT_NE(waves_[0].second.threads, waves_[1].second.threads);
}

TEST_F(WorkingOffDemand, TellsWhatWasGained) {
  demands_ = {demand('a', {{8, 1e5}})};
  const auto done = run({.budget_s = 600});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(times_of(done->before[0]).best_ns, 1e5);
  EXPECT_EQ(times_of(done->after[0]).best_ns, 1e4);
  EXPECT_EQ(times_of(done->after[0]).used_ns, 1e5) << "its schedule was not timed";
  EXPECT_EQ(times_of(done->after[0]).measured_share, 0);
}

TEST_F(WorkingOffDemand, WhatHasNoCandidateTwiceIsGivenUp) {
  demands_ = {demand('a', {{8, 1e5}, {16, 9e5}})};
  ended_ = Ended::Budget;
  spent_share_ = 0.2;
  fails_ = workload_of(dense(16)).text();
  const auto done = run({.budget_s = 60, .effort = Effort::Full});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->failures.at("no candidate"), std::vector<std::string>{fails_});
  ASSERT_GT(waves_.size(), 2u);
  EXPECT_EQ(names_of_wave(1).size(), 2u);
  for (size_t wave = 2; wave < waves_.size(); ++wave)
    EXPECT_THAT(names_of_wave(wave), ElementsAre(workload_of(dense(8)).key()));
}

TEST_F(WorkingOffDemand, NothingWantedIsNothingToDo) {
  const auto done = run({.budget_s = 600});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(waves_.empty());
  EXPECT_TRUE(done->after.empty());
}

TEST(ExpectedSaving, FallsWithTheTrialsThatWereMade) {
  db::Demand demand;
  demand.latency_ns = 1e6;
  db::WantedKernel kernel;
  kernel.latency_ns = 5e5;
  const double unmeasured = expected_saving(kernel, demand);
  kernel.best_ns = 5e5;
  kernel.trials = 100;
  const double measured = expected_saving(kernel, demand);
  EXPECT_GT(unmeasured, 2 * measured);
  EXPECT_GT(measured, 0);
  kernel.runs = 1e9;
  EXPECT_LE(expected_saving(kernel, demand), 1);
}

TEST(ExpectedSaving, IsMuchOfAKernelThatIsOnlyPredicted) {
  db::Demand demand;
  demand.latency_ns = 1e6;
  db::WantedKernel kernel;
  kernel.latency_ns = 1e6;
  EXPECT_GT(expected_saving(kernel, demand), 0.05);
  EXPECT_LT(expected_saving(kernel, demand), 0.12);
  kernel.best_ns = 1e6;
  kernel.trials = 1'000;
  EXPECT_LT(expected_saving(kernel, demand), 0.001);
}

TEST(ExpectedSaving, IsMostWhereNoKernelIsKnown) {
  db::Demand demand;
  db::WantedKernel unknown, known;
  known.best_ns = 1e5;
  EXPECT_GT(expected_saving(unknown, demand), expected_saving(known, demand));
}

}  // namespace
}  // namespace tw::tuner
