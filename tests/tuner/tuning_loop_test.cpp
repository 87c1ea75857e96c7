// SPDX-License-Identifier: Apache-2.0
// Tests the loop of tuner/tune.cpp with fake workers. No process is started, and the clock advances
// only when a test says so.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "base/text.h"
#include "db/engine/gate.h"
#include "db/recall.h"
#include "tests/tuner/fake_workers.h"
#include "tuner/search/experience.h"
#include "tuner/trial_record.h"
#include "tuner/tune.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;
using testing::HasSubstr;

constexpr int64_t second = 1'000'000'000;
const std::string claimed = "tw1\nsplit out m 7\n";

class TuningLoop : public testing::Test {
 protected:
  TuningLoop() {
    environment_.clock = [this] { return now_ns_; };
    environment_.interrupts = &interrupts_;
    work_.target.machine.cores = 4;
  }

  Result<Tuned> run(const TuneOptions& options) {
    db::Store store = open_store(folder_ / "t.db");
    TW_TRY(std::vector<Result<Tuned>> results,
           tune_all({{workload_, 1, "", schedule_, most_error_}}, work_.target, options, store,
                    environment_, {}, fake_workers(folder_, work_)));
    return std::move(results[0]);
  }

  std::vector<db::Record> records(TrialStatus status) {
    db::Store store = open_store(folder_ / "t.db");
    return store.query({.status = status}).value();
  }

  /// The record that best_known() finds in the database. Throws if there is none.
  db::Record best() {
    db::Store store = open_store(folder_ / "t.db");
    return best_known(store, workload_, work_.target, 1).value().value();
  }

  /// Stores a record of another host whose device has the same name as this one. The default of
  /// `schedule` is a schedule that no search proposes.
  void store_claim(double latency_ns, const std::string& host = "a",
                   const std::string& schedule = claimed) {
    db::Record record = trial_record(workload_, work_.target, 1, "fake-1.0", schedule,
                                     timed_reply(latency_ns), 1e3);
    record.host = host;
    record.session = "of " + host;
    record.program_version = "0";
    record.created_ms = 1'700'000'000'000;
    record = db::seal(std::move(record));
    db::Store store = open_store(folder_ / "t.db");
    ASSERT_TRUE(store.append({&record, 1}));
  }

  /// Returns the number of batches whose build began before the first candidate was timed.
  int64_t begun_before_the_first_measurement() const {
    const auto first = std::find(work_.events.begin(), work_.events.end(), "measure");
    return std::count_if(work_.events.begin(), first,
                         [](const std::string& event) { return event.starts_with("begin"); });
  }

  Folder folder_;
  dsl::Workload workload_ = workload_of(small);
  std::string schedule_;                                         ///< that the run begins with
  double most_error_ = std::numeric_limits<double>::infinity();  ///< of the result
  FakeWork work_;
  Environment environment_ = test_environment();
  int64_t now_ns_ = second;
  std::atomic<int> interrupts_ = 0;
};

TEST_F(TuningLoop, MeasuresRecordsAndEnds) {
  const auto tuned = run({.trials = 8, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Trials);
  EXPECT_EQ(total(tuned->progress), 8);
  EXPECT_EQ(records(TrialStatus::Ok).size(), 8u);
  EXPECT_EQ(tuned->best.latency_ns, 1e6 - 7e3);
  EXPECT_EQ(tuned->best.toolchain, "fake-1.0");
  EXPECT_EQ(tuned->artifact.object, "whole");
  EXPECT_EQ(tuned->artifact.info.schedule, tuned->best.schedule);
}

TEST_F(TuningLoop, RoundsForCudaAreLarger) {
  const auto largest_round = [&](const Target& target) {
    work_.target = target;
    work_.events.clear();
    const auto tuned = run({.trials = 60});
    EXPECT_TRUE(tuned) << tuned.error().message;
    int64_t largest = 0;
    for (const std::string& event : work_.events)
      if (event.starts_with("begin ")) largest = std::max(largest, *parse_int(event.substr(6)));
    return largest;
  };
  EXPECT_EQ(largest_round(work_.target), 8);
  EXPECT_EQ(largest_round(parse_target("cuda:sm_90a").value()), 24);
}

// Kernels of Winograd's algorithm are the fastest, but their rounding errors exceed the second
// run's limit.
TEST_F(TuningLoop, ResultsOfOtherAlgorithmsAreAsExactAsWasAskedFor) {
  workload_ = workload_of("conv2d n=1 c=32 h=8 w=8 k=32 r=3 s=3 pad=1 f32 fast");
  const auto is_rewritten = [](const std::string& schedule) {
    return !schedules::algorithm_text(schedule).empty();
  };
  work_.measure = [&](const MeasureJob& job) {
    MeasureReply reply = timed_reply(is_rewritten(work_.schedules.at(job.artifact)) ? 1e5 : 1e6);
    reply.verified_error = 1e-5;
    return reply;
  };
  const auto fast = run({.trials = 8, .batch = 8});
  ASSERT_TRUE(fast) << fast.error().message;
  ASSERT_TRUE(is_rewritten(fast->best.schedule));
  most_error_ = 1e-9;
  const auto exact = run({.trials = 8, .batch = 8});
  ASSERT_TRUE(exact) << exact.error().message;
  EXPECT_FALSE(is_rewritten(exact->best.schedule));
  // The Winograd kernel remains a result of the workload for callers that allow its error.
  EXPECT_EQ(best().latency_ns, 1e5);
}

TEST_F(TuningLoop, DoublePrecisionHasHalfOfThePeak) {
  workload_ = workload_of("dense m=16 n=32 k=24 f64 fast");
  const auto tuned = run({.trials = 4, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->progress.peak_gflops, 500);
  for (const db::Record& record : records(TrialStatus::Ok)) EXPECT_EQ(record.peak_gflops, 500);
}

TEST_F(TuningLoop, TheRunnerIsToldOfABatchBeforeItIsMeasured) {
  ASSERT_TRUE(run({.trials = 8, .batch = 4}));
  const auto name = [](const MeasureJob& job) { return job.artifact; };
  ASSERT_GE(work_.announced.size(), 2u);
  std::vector<std::string> announced, timed;
  for (size_t batch = 0; batch < 2; ++batch) {
    EXPECT_EQ(work_.announced[batch].size(), 4u);
    std::ranges::transform(work_.announced[batch], std::back_inserter(announced), name);
  }
  std::ranges::transform(work_.timed, std::back_inserter(timed), name);
  timed.resize(8);
  EXPECT_EQ(announced, timed);
  EXPECT_TRUE(work_.announced[0][0].incumbent.empty());
  EXPECT_FALSE(work_.announced[1][0].incumbent.empty());
}

TEST_F(TuningLoop, WinnersAreBuiltWholeOnlyForThoseWhoWantThem) {
  const auto begun = [this] { return std::ranges::count(work_.events, "begin 1"); };
  ASSERT_TRUE(run({.trials = 4, .batch = 4}));
  EXPECT_EQ(begun(), 2);  // the batch of the reference and that of the winner
  work_.events.clear();
  const auto tuned = run({.trials = 4, .batch = 4, .builds_winners = false});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(begun(), 1);
  EXPECT_FALSE(tuned->artifact.object.empty()) << "the kernel of the trial";
  EXPECT_EQ(tuned->best.status, TrialStatus::Ok);
}

TEST_F(TuningLoop, TheReferenceIsPlainWhereThatTakesLittleOfTheBudget) {
  workload_ = workload_of("dense m=256 n=512 k=512 f32 fast");  // 0.13 GFLOP
  const auto is_plain = [this](double budget_s) {
    work_.schedules.clear();
    EXPECT_TRUE(run({.budget_s = budget_s, .trials = 1}));
    return std::ranges::any_of(work_.schedules, [](const auto& s) { return s.second == "tw1"; });
  };
  EXPECT_TRUE(is_plain(60));
  EXPECT_FALSE(is_plain(1));
}

TEST_F(TuningLoop, AScheduleByHandIsMeasuredFirstAndAsItself) {
  schedule_ = "tw1; split out m 7 as mo mi; unroll out mi";  // no point has this schedule
  const std::string canonical = "tw1\nsplit out m 7\nunroll out m.1";
  const auto tuned = run({.trials = 6, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_FALSE(work_.timed.empty());
  EXPECT_EQ(work_.schedules.at(work_.timed[0].artifact), canonical);
  EXPECT_EQ(tuned->progress.given_ns, 1e6);  // the first kernel's time
  const std::vector<db::Record> stored = records(TrialStatus::Ok);
  EXPECT_EQ(stored.size(), 6u);  // the given schedule counts as one of the 6 trials
  EXPECT_EQ(stored[0].schedule, canonical);
  EXPECT_EQ(stored[0].configuration, "");
}

TEST_F(TuningLoop, OneTrialOfAScheduleByHandIsThatScheduleAlone) {
  schedule_ = "tw1";
  const auto tuned = run({.trials = 1});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.schedule, "tw1");
  EXPECT_EQ(total(tuned->progress), 1);
}

TEST_F(TuningLoop, ALimitOfTrialsHoldsForTheFinalsToo) {
  for (const int64_t trials : {1, 2, 5}) {
    work_.timed.clear();
    const auto tuned = run({.trials = trials, .seed = static_cast<uint64_t>(trials), .batch = 4});
    ASSERT_TRUE(tuned) << tuned.error().message;
    EXPECT_EQ(total(tuned->progress), trials);
    EXPECT_EQ(std::ssize(work_.timed), trials);
  }
  work_.timed.clear();
  store_claim(1e3);  // one of the five trials confirms what the other host claims
  ASSERT_TRUE(run({.trials = 5, .seed = 9, .batch = 4}));
  EXPECT_EQ(work_.timed.size(), 5u);
  EXPECT_EQ(work_.schedules.at(work_.timed.back().artifact), claimed);
}

// The machine decides how long kernels take and how many are built at a time. It must not influence
// the search space or the first points.
TEST_F(TuningLoop, Fault91_TheFirstPointsFollowFromTheSeedWhateverTheMachineDoes) {
  constexpr size_t first = 16;
  const auto tried = [&](double step, int64_t each_ns, const char* database) {
    work_.timed.clear();
    work_.measure = [&](const MeasureJob& job) -> Result<MeasureReply> {
      now_ns_ += each_ns;
      const size_t number = std::hash<std::string>()(job.artifact) % 97;
      return timed_reply(1e6 + step * static_cast<double>(number));
    };
    db::Store store = open_store(folder_ / database);
    const auto results =
        tune_all({{workload_}}, work_.target,
                 {.budget_s = 100, .trials = 80, .effort = Effort::Full, .seed = 3}, store,
                 environment_, {}, fake_workers(folder_, work_));
    EXPECT_TRUE(results);
    std::vector<std::string> schedules;
    for (const MeasureJob& job : work_.timed) schedules.push_back(work_.schedules[job.artifact]);
    EXPECT_GE(schedules.size(), first) << database;
    schedules.resize(first);
    return schedules;
  };
  const std::vector<std::string> idle = tried(1e4, 1'000'000, "idle.db");
  EXPECT_EQ(tried(-5e3, 1'000'000, "other.db"), idle) << "other kernels are the fast ones";
  EXPECT_EQ(tried(1e4, second / 2, "busy.db"), idle) << "little time is left for each batch";
}

TEST_F(TuningLoop, AScheduleByHandThatIsAPointOfTheSpaceHasItsConfiguration) {
  const auto space = schedules::Space::derive(workload_.compute, work_.target);
  schedule_ = space.schedule(space.default_point()).to_string();
  ASSERT_TRUE(run({.trials = 3, .batch = 4}));
  const std::vector<db::Record> stored = records(TrialStatus::Ok);
  EXPECT_EQ(stored[0].schedule, schedule_);
  EXPECT_NE(stored[0].configuration, "");
  EXPECT_EQ(std::count_if(stored.begin() + 1, stored.end() - 1,
                          [&](const db::Record& r) { return r.schedule == schedule_; }),
            0);
}

TEST_F(TuningLoop, AKnownScheduleByHandIsMeasuredAgain) {
  schedule_ = "tw1; split out m 7";
  ASSERT_TRUE(run({.trials = 1}));
  const size_t measured = work_.timed.size();
  ASSERT_TRUE(run({.trials = 1}));
  EXPECT_EQ(work_.timed.size(), 2 * measured);
}

// The other host claims a time that is a thousandth of that of any trial of this run, on a device
// of the same name.
TEST_F(TuningLoop, Fault28_WhatAnotherHostClaimsOfSuchADeviceIsTimedHereBeforeItIsTheResult) {
  store_claim(1e3);
  const auto tuned = run({.trials = 4, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.session, environment_.session);
  EXPECT_GE(tuned->best.latency_ns, 9e5);
  const std::vector<db::Record> stored = records(TrialStatus::Ok);
  EXPECT_TRUE(std::ranges::any_of(stored, [&](const db::Record& record) {
    return record.schedule == claimed && record.session == environment_.session;
  }));
  EXPECT_EQ(best(), tuned->best);
}

TEST_F(TuningLoop, Fault28_WhatIsWrongHereIsNotTheResultWhateverOthersClaimOfIt) {
  store_claim(1e3);
  work_.measure = [&](const MeasureJob& job) {
    const bool is_claimed = work_.schedules.at(job.artifact) == claimed;
    return timed_reply(1e6, is_claimed ? TrialStatus::Wrong : TrialStatus::Ok);
  };
  const auto tuned = run({.trials = 4, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_NE(tuned->best.schedule, claimed);
  EXPECT_EQ(records(TrialStatus::Wrong).size(), 1u);
  EXPECT_EQ(best().schedule, tuned->best.schedule);
}

// One of three hosts claims a latency below half of that of the other two.
TEST_F(TuningLoop, Fault29_AClaimThatWaitsToBeConfirmedIsTimedInTheFinals) {
  store_claim(9e5, "a", "tw1\nsplit out m 3\n");
  store_claim(9e5, "b", "tw1\nsplit out m 5\n");
  store_claim(4e5, "c");
  EXPECT_NE(best().schedule, claimed);
  work_.measure = [&](const MeasureJob& job) {
    return timed_reply(work_.schedules.at(job.artifact) == claimed ? 4.1e5 : 1e6);
  };
  const auto tuned = run({.trials = 4, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.schedule, claimed);
  EXPECT_EQ(best().schedule, claimed);
}

TEST_F(TuningLoop, Fault29_ALeadThatWaitsForAnotherHostIsTheResultOfItsRun) {
  store_claim(3e6, "a", "tw1\nsplit out m 3\n");
  store_claim(3e6, "b", "tw1\nsplit out m 5\n");
  const auto tuned = run({.trials = 4, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.session, environment_.session);
  EXPECT_LT(tuned->best.latency_ns, 1.1e6);
}

TEST_F(TuningLoop, AScheduleByHandThatDoesNotFitEndsTheTask) {
  schedule_ = "tw1; split out z 7";
  const auto tuned = run({.trials = 1});
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Invalid);
  EXPECT_THAT(tuned.error().message, HasSubstr("has no loop 'z'"));
  schedule_ = "tw1";
  workload_ = dsl::with_layouts(workload_, {{"a", "KM"}}).value();
  EXPECT_THAT(run({.trials = 1}).error().message, HasSubstr("set_layout a KM"));
}

TEST_F(TuningLoop, LayoutsThatAreAskedForAreThoseOfEveryTrialAndOfItsRecord) {
  ASSERT_TRUE(run({.trials = 8, .batch = 4}));
  const auto free = records(TrialStatus::Ok);
  workload_ = dsl::with_layouts(workload_, {{"a", "KM"}, {"out", "MN16n"}}).value();
  work_.prepared.clear();
  const auto tuned = run({.trials = 8, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->progress.known_trials, 0);
  EXPECT_EQ(tuned->best.layouts, "a=KM out=MN16n");
  EXPECT_EQ(tuned->best.workload, workload_.key());
  EXPECT_THAT(work_.prepared, testing::Each(workload_.text()));
  db::Store store = open_store(folder_ / "t.db");
  const auto asked = store.query({.layouts = "a=KM out=MN16n"}).value();
  EXPECT_EQ(asked.size(), 8u);
  for (const db::Record& record : asked) {
    EXPECT_THAT(record.schedule, HasSubstr("set_layout a KM\n"));
    EXPECT_THAT(record.schedule, HasSubstr("set_layout out MN16n\n"));
  }
  EXPECT_EQ(store.query({.layouts = ""}).value().size(), free.size());
  EXPECT_EQ(count_known(store, workload_, work_.target, 1).value(), 8);
}

TEST_F(TuningLoop, AStateOfTheCachesIsThatOfEveryTrialAndOfItsRecord) {
  ASSERT_TRUE(run({.trials = 8, .batch = 4}));
  const dsl::Workload hot = workload_;
  workload_.state = dsl::CacheState::NetworkL3;
  work_.prepared.clear();
  const auto tuned = run({.trials = 8, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->progress.known_trials, 0);
  EXPECT_EQ(tuned->best.layouts, "network:L3");
  EXPECT_EQ(tuned->best.workload, hot.key());
  EXPECT_THAT(work_.prepared, testing::Each(hot.key() + " {network:L3}"));
  db::Store store = open_store(folder_ / "t.db");
  EXPECT_EQ(store.query({.layouts = "network:L3"}).value().size(), 8u);
  EXPECT_EQ(best_known(store, workload_, work_.target, 1).value()->layouts, "network:L3");
  EXPECT_EQ(best_known(store, hot, work_.target, 1).value()->layouts, "");
  workload_.state = dsl::CacheState::NetworkMemory;
  EXPECT_FALSE(best_known(store, workload_, work_.target, 1).value());
}

TEST_F(TuningLoop, GpusAreOnlyTimedHot) {
  workload_.state = dsl::CacheState::NetworkL3;
  db::Store store = open_store(folder_ / "t.db");
  const auto tuned =
      tune(workload_, parse_target("opencl").value(), {}, store, test_environment(), {});
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Usage);
  EXPECT_THAT(tuned.error().message, HasSubstr("timed hot"));
}

TEST_F(TuningLoop, LayoutsThatAreNoneEndTheTask) {
  workload_.layouts = {{"a", "MX"}};
  const auto tuned = run({.trials = 8, .batch = 4});
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Usage);
  EXPECT_TRUE(work_.events.empty());
}

// 40 tasks share 4 seconds, so each gets a batch of about two candidates. A task by itself gets a
// batch of the whole size.
TEST_F(TuningLoop, WhereTasksAreManyEachGetsASmallFirstBatch) {
  std::vector<TaskSpec> tasks;
  for (int i = 1; i <= 40; ++i)
    tasks.push_back({workload_of("dense m=" + std::to_string(16 * i) + " n=32 k=24 f32 fast")});
  work_.measure = [&](const MeasureJob&) -> Result<MeasureReply> {
    now_ns_ += second / 100;
    return timed_reply(1e6);
  };
  db::Store store = open_store(folder_ / "t.db");
  const auto results = tune_all(tasks, work_.target, {.budget_s = 4, .batch = 8}, store,
                                environment_, {}, fake_workers(folder_, work_));
  ASSERT_TRUE(results) << results.error().message;
  for (const Result<Tuned>& result : *results) EXPECT_TRUE(result) << result.error().message;
  work_.events.clear();
  ASSERT_TRUE(run({.budget_s = 4, .trials = 8, .batch = 8}));
  // Two of the eight points may give the same program, and only one of them is built.
  EXPECT_THAT(work_.events, testing::Contains(testing::AnyOf("begin 8", "begin 7")));
}

TEST_F(TuningLoop, EachCandidateIsMeasuredBesideTheFastestBefore) {
  ASSERT_TRUE(run({.trials = 8, .batch = 4}));
  ASSERT_GE(work_.timed.size(), 8u);
  EXPECT_EQ(work_.timed[0].incumbent, "");
  for (size_t i = 1; i < 8; ++i) {
    EXPECT_EQ(work_.timed[i].incumbent, work_.timed[i - 1].artifact);
    EXPECT_EQ(work_.timed[i].incumbent_ns, work_.latencies_ns[work_.timed[i - 1].artifact]);
  }
}

TEST_F(TuningLoop, BuildsBesideMeasuringWhereACoreIsFree) {
  ASSERT_TRUE(run({.trials = 12, .threads = 3, .batch = 4}));
  EXPECT_EQ(begun_before_the_first_measurement(), 3);  // the reference and two batches
}

TEST_F(TuningLoop, BuildsNothingWhileAKernelThatUsesEveryCoreIsMeasured) {
  ASSERT_TRUE(run({.trials = 12, .threads = 4, .batch = 4}));
  EXPECT_EQ(begun_before_the_first_measurement(), 2);
  int building = 0;
  for (const std::string& event : work_.events) {
    if (event.starts_with("begin")) ++building;
    if (event == "finish") --building;
    if (event == "measure") {
      EXPECT_EQ(building, 0);
    }
  }
}

// The first kernel is measured. The other three are disturbed, and the budget ends while the last
// is measured.
TEST_F(TuningLoop, Fault74_WhatIsPostponedWhenTheBudgetEndsIsStoredAsDisturbed) {
  work_.measure = [&](const MeasureJob&) -> Result<MeasureReply> {
    if (work_.timed.size() == 1) return timed_reply(1e6);
    if (work_.timed.size() == 4) now_ns_ += 1000 * second;
    return MeasureReply{.status = TrialStatus::Unstable, .reason = "as told"};
  };
  const auto tuned = run({.budget_s = 100, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Budget);
  EXPECT_EQ(records(TrialStatus::Ok).size(), 1u);
  const std::vector<db::Record> disturbed = records(TrialStatus::Unstable);
  ASSERT_EQ(disturbed.size(), 3u);
  for (const db::Record& record : disturbed) {
    EXPECT_EQ(record.reason, "as told");
    EXPECT_EQ(record.latency_ns, 0);
  }
  EXPECT_EQ(work_.timed.size(), 4u) << "no time was left";
  EXPECT_EQ(tuned->progress.trials.at("unstable"), 3);
}

// Kernels 2 and 3 are disturbed and postponed to the finals. There kernel 2 is measured, and the
// runner fails at kernel 3.
TEST_F(TuningLoop, Fault74_WhatTheFinalsMeasuredIsStoredWhereTheyFail) {
  std::map<std::string, int> attempts;
  int settled = 0;
  work_.measure = [&](const MeasureJob& job) -> Result<MeasureReply> {
    const bool is_first = ++attempts[job.artifact] == 1;
    if (attempts.size() > 1 && is_first)
      return MeasureReply{.status = TrialStatus::Unstable, .reason = "as told"};
    if (++settled > 2) return fail(ErrorCode::Environment, "[device] it is gone");
    return timed_reply(1e6);
  };
  const auto tuned = run({.budget_s = 100, .trials = 3, .batch = 4});
  ASSERT_FALSE(tuned);
  EXPECT_THAT(tuned.error().message, HasSubstr("it is gone"));
  EXPECT_EQ(records(TrialStatus::Ok).size(), 2u);
}

// The processor is always disturbed. Kernels are timed all the same.
TEST_F(TuningLoop, Fault48_WhereAllIsDisturbedTheFastestIsTheResultAndSaidToBeDisturbed) {
  const auto disturbed = [&](const MeasureJob& job) {
    const double next_ns = 1e6 - 1e3 * static_cast<double>(work_.latencies_ns.size());
    MeasureReply reply = timed_reply(
        work_.latencies_ns.try_emplace(job.artifact, next_ns).first->second, TrialStatus::Unstable);
    reply.reason = "as told";
    return reply;
  };
  work_.measure = [&](const MeasureJob& job) -> Result<MeasureReply> { return disturbed(job); };
  const auto tuned = run({.budget_s = 100, .trials = 8, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.status, TrialStatus::Unstable);
  EXPECT_EQ(tuned->best.reason, "as told");
  EXPECT_EQ(tuned->best.latency_ns, 1e6 - 7e3);
  EXPECT_EQ(tuned->artifact.object, "whole");
  EXPECT_TRUE(records(TrialStatus::Ok).empty());

  // In a later run, the first undisturbed kernel is the result, however slow it is.
  work_.measure = [&](const MeasureJob& job) -> Result<MeasureReply> {
    return work_.timed.size() % 8 == 0 ? timed_reply(2e6) : disturbed(job);
  };
  const auto later = run({.budget_s = 100, .trials = 8, .batch = 4});
  ASSERT_TRUE(later) << later.error().message;
  EXPECT_EQ(later->best.status, TrialStatus::Ok);
  EXPECT_EQ(later->best.latency_ns, 2e6);
}

TEST_F(TuningLoop, Fault74_WhatIsPostponedAtAnInterruptIsStoredAsDisturbed) {
  work_.measure = [&](const MeasureJob&) -> Result<MeasureReply> {
    if (work_.timed.size() == 1) return timed_reply(1e6);
    if (work_.timed.size() == 3) interrupts_ = 1;
    return MeasureReply{.status = TrialStatus::Unstable, .reason = "as told"};
  };
  const auto tuned = run({.budget_s = 100, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Interrupted);
  EXPECT_EQ(records(TrialStatus::Unstable).size(), 2u);
}

TEST_F(TuningLoop, Fault31_AMeasurementThatIsInterruptedIsNoTrial) {
  work_.measure = [&](const MeasureJob&) -> Result<MeasureReply> {
    if (work_.timed.size() == 1) return timed_reply(1e6);
    interrupts_ = 1;
    return fail(ErrorCode::Interrupted, "[tune] interrupted while a kernel was measured");
  };
  const auto tuned = run({.budget_s = 100, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Interrupted);
  EXPECT_EQ(total(tuned->progress), 1);
}

// The first kernel is measured. Verifying the second one takes so long that the budget ends.
TEST_F(TuningLoop, Fault93_ACandidateThatOutlastsTheBudgetIsGivenUpAndIsNoTrial) {
  work_.measure = [&](const MeasureJob&) -> Result<MeasureReply> {
    if (work_.timed.size() == 1) return timed_reply(1e6);
    now_ns_ += 10 * second;
    return fail(ErrorCode::Interrupted, "[tune] interrupted while a kernel was measured");
  };
  const auto tuned = run({.budget_s = 2, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Budget);
  EXPECT_EQ(total(tuned->progress), 1);
  EXPECT_EQ(work_.timed.size(), 2u) << "nothing is measured beyond the budget";
}

TEST_F(TuningLoop, Fault93_ABudgetThatTheFirstCandidateOutlastsSaysSo) {
  work_.measure = [&](const MeasureJob&) -> Result<MeasureReply> {
    now_ns_ += 10 * second;
    return fail(ErrorCode::Interrupted, "[tune] interrupted while a kernel was measured");
  };
  const auto tuned = run({.budget_s = 2, .batch = 4});
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error(), (Error{ErrorCode::NoCandidate,
                                  "[tune] no candidate was built within the budget of 2 "
                                  "s; give more time (--budget)"}));
  // A task of a network gets a part of the budget, which need not be a round number.
  const auto part = run({.budget_s = 2.9070296343, .batch = 4});
  ASSERT_FALSE(part);
  EXPECT_THAT(part.error().message, HasSubstr("within the budget of 2.91 s;"));
}

/// Returns a function that answers jobs for the `n`th new kernel of a run (counted from 1) with
/// `reply`, and gives the other kernels the default times.
std::function<Result<MeasureReply>(const MeasureJob&)> answering(int n, const MeasureReply& reply) {
  auto kernels = std::make_shared<std::map<std::string, int>>();
  return [=](const MeasureJob& job) -> Result<MeasureReply> {
    const int number = kernels->try_emplace(job.artifact, std::ssize(*kernels) + 1).first->second;
    if (number == n) return reply;
    return timed_reply(1e6 - 1e3 * number);
  };
}

TEST_F(TuningLoop, Fault84_ACandidateThatIsLostWithItsWorkerLeavesNoRecord) {
  Notes notes;
  environment_.notes = &notes;
  work_.measure = answering(2, blameless_loss("ended from outside by SIGTERM"));
  const auto tuned = run({.budget_s = 60, .trials = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->progress.trials.at("lost"), 1);
  EXPECT_TRUE(records(TrialStatus::Lost).empty());
  EXPECT_TRUE(records(TrialStatus::Crash).empty());
  std::set<std::string> schedules;
  for (const db::Record& record : records(TrialStatus::Ok)) schedules.insert(record.schedule);
  EXPECT_EQ(schedules.size(), 4u) << "another candidate takes its place";
  EXPECT_FALSE(schedules.contains(work_.schedules.at(work_.timed[1].artifact)));
  ASSERT_EQ(notes.all().size(), 1u);
  EXPECT_EQ(notes.all()[0].kind, NoteKind::LostTrial);
}

TEST_F(TuningLoop, Fault84_TheBestKnownStaysTheAnswerWhereItsWorkerIsLost) {
  ASSERT_TRUE(run({.budget_s = 60, .trials = 3}));
  const db::Record before = best();
  environment_.session = "second";
  work_.verify = [](const MeasureJob&) { return blameless_loss("ended from outside by SIGTERM"); };
  work_.measure = [](const MeasureJob&) { return timed_reply(2e6); };
  const auto tuned = run({.budget_s = 60, .trials = 2, .builds_winners = false});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.schedule, before.schedule);
  EXPECT_EQ(best(), before);
}

TEST_F(TuningLoop, Fault85_WhereEveryCandidateIsLostTheRunEndsWithoutARecord) {
  work_.measure = [](const MeasureJob&) { return blameless_loss("a reply that is none"); };
  const auto tuned = run({.budget_s = 60, .trials = 100});
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::TryLater) << tuned.error().message;
  EXPECT_THAT(tuned.error().message, HasSubstr("a reply that is none"));
  EXPECT_TRUE(open_store(folder_ / "t.db").query({}).value().empty());
}

TEST_F(TuningLoop, Fault36_ALackOfMemoryLeavesNoRecord) {
  MeasureReply lacking{TrialStatus::Resource, "out of memory"};
  lacking.blameless = true;
  work_.measure = answering(2, lacking);
  const auto tuned = run({.budget_s = 60, .trials = 3});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(records(TrialStatus::Ok).size(), 3u) << "another candidate takes its place";
  EXPECT_TRUE(records(TrialStatus::Resource).empty());
  environment_.session = "second";
  work_.measure = [&](const MeasureJob&) { return lacking; };
  work_.verify = [&](const MeasureJob&) { return lacking; };
  const auto ended = run({.budget_s = 60, .seed = 2});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::TryLater) << ended.error().message;
  EXPECT_THAT(ended.error().message, HasSubstr("8 candidates in a row were not measured"));
  EXPECT_TRUE(records(TrialStatus::Resource).empty());
}

TEST_F(TuningLoop, Fault86_ACandidateThatIsKilledTwiceIsARecordThatProvesNothing) {
  work_.measure = answering(1, {TrialStatus::Lost, "killed by the system"});
  const auto tuned = run({.budget_s = 60, .trials = 3});
  ASSERT_TRUE(tuned) << tuned.error().message;
  const std::vector<db::Record> lost = records(TrialStatus::Lost);
  ASSERT_EQ(lost.size(), 1u);
  db::Store store = open_store(folder_ / "t.db");
  const auto space = schedules::Space::derive(workload_.compute, work_.target);
  Question question{&workload_, &space, work_.target, 1, nullptr};
  question.host = environment_.host;
  const Experience known = warm_start(store, question);
  EXPECT_FALSE(known.tried.contains(db::schedule_key(lost[0].schedule)));
  EXPECT_EQ(known.tried.size(), 2u);
  EXPECT_EQ(known.samples.size(), 2u);
}

TEST_F(TuningLoop, Fault87_WhatOneSessionElsewhereSaysIsWrongIsTriedHere) {
  const auto crashed = [&](const std::string& host, const std::string& session) {
    db::Record record = trial_record(workload_, work_.target, 1, "fake-1.0", claimed,
                                     MeasureReply{TrialStatus::Crash, "SIGSEGV"}, 1e3);
    record.host = host;
    record.session = session;
    record = db::seal(std::move(record));
    db::Store store = open_store(folder_ / "t.db");
    EXPECT_TRUE(store.append({&record, 1}));
  };
  const auto is_tried = [&](const std::string& host) {
    db::Store store = open_store(folder_ / "t.db");
    const auto space = schedules::Space::derive(workload_.compute, work_.target);
    Question question{&workload_, &space, work_.target, 1, nullptr};
    question.host = host;
    return warm_start(store, question).tried.contains(db::schedule_key(claimed));
  };
  crashed("elsewhere", "x");
  EXPECT_FALSE(is_tried("here"));
  EXPECT_TRUE(is_tried("elsewhere"));
  crashed("here", "y");
  EXPECT_TRUE(is_tried("here"));
  EXPECT_TRUE(is_tried("a third")) << "two sessions say so";
}

TEST_F(TuningLoop, AKnownKernelThatIsOfNoUseHereIsANote) {
  ASSERT_TRUE(run({.budget_s = 60, .trials = 2}));
  Notes notes;
  environment_.notes = &notes;
  environment_.session = "second";
  work_.verify = [](const MeasureJob&) { return MeasureReply{TrialStatus::Wrong, "it differs"}; };
  work_.measure = [](const MeasureJob&) { return timed_reply(2e6); };
  (void)run({.budget_s = 60, .trials = 2, .builds_winners = false});
  ASSERT_EQ(notes.all().size(), 1u);
  EXPECT_EQ(notes.all()[0].kind, NoteKind::KnownUnusable);
  EXPECT_THAT(notes.all()[0].text, HasSubstr("wrong: it differs"));
}

TEST_F(TuningLoop, Fault17_RecordsThatTheDatabaseDoesNotTakeAreANote) {
  Notes notes;
  environment_.notes = &notes;
  {
    auto store =
        db::Store::open(folder_ / "t.db", db::OpenMode::ReadWrite, {.waiting = {.limit_ms = 0}});
    ASSERT_TRUE(store);
    auto gate = db::Gate::open(folder_ / "t.db", {});
    ASSERT_TRUE(gate);
    const auto hold = gate->enter();
    ASSERT_TRUE(hold);
    const auto tuned =
        tune_all({{workload_, 1, "", schedule_, most_error_}}, work_.target,
                 {.trials = 8, .batch = 4}, *store, environment_, {}, fake_workers(folder_, work_));
    ASSERT_TRUE(tuned && tuned->front());
    EXPECT_EQ(tuned->front()->ended, Ended::Trials);
    EXPECT_TRUE(records(TrialStatus::Ok).empty());
  }
  ASSERT_EQ(notes.all().size(), 1u);
  EXPECT_EQ(notes.all()[0].kind, NoteKind::RecordsSpooled);
  EXPECT_THAT(notes.all()[0].text, HasSubstr("records wait in"));
  EXPECT_THAT(notes.all()[0].text, HasSubstr("t.db.spool.jsonl"));
  environment_.session = "second";
  ASSERT_TRUE(run({.trials = 4, .batch = 4}));
  EXPECT_EQ(open_store(folder_ / "t.db").query({.session = "test"}).value().size(), 8u)
      << "the next run stores them";
}

TEST_F(TuningLoop, AnErrorOfTheRunnerEndsTheTask) {
  work_.measure = [&](const MeasureJob&) -> Result<MeasureReply> {
    return fail(ErrorCode::TryLater, "[device] another tuner measures on it");
  };
  const auto tuned = run({.budget_s = 100, .batch = 4});
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::TryLater);
}

// The second kernel is the fastest, but can no longer be loaded when the third kernel is measured.
TEST_F(TuningLoop, AnIncumbentThatCannotBeLoadedIsAtFaultItself) {
  work_.measure = [&](const MeasureJob& job) -> Result<MeasureReply> {
    MeasureReply reply =
        timed_reply(work_.timed.size() == 2 ? 0.5e6 : 1e6 + 1e3 * work_.timed.size());
    if (work_.timed.size() == 3) {
      reply.incumbent_fault = "out of memory";
      reply.faulty_incumbent = job.incumbent;
    }
    return reply;
  };
  const auto tuned = run({.trials = 4, .batch = 4});
  ASSERT_TRUE(tuned) << tuned.error().message;
  const std::vector<MeasureJob>& timed = work_.timed;
  ASSERT_GE(timed.size(), 4u);
  EXPECT_EQ(timed[2].incumbent, timed[1].artifact);
  EXPECT_EQ(timed[3].incumbent, timed[0].artifact) << "it went on with the one that is lost";
  EXPECT_TRUE(records(TrialStatus::Resource).empty()) << "the candidate is not at fault";
  EXPECT_EQ(tuned->failures.count("the fastest kernel so far: out of memory"), 1u);
}

// The second kernel is the fastest. Measurements of the third and the fourth began when the first
// was the incumbent, and report that the first cannot be loaded any more.
TEST_F(TuningLoop, TheFaultOfAFormerIncumbentIsNotThatOfThePresentOne) {
  work_.measure = [&](const MeasureJob&) -> Result<MeasureReply> {
    const size_t number = work_.timed.size();
    MeasureReply reply = timed_reply(number == 2 ? 0.5e6 : 1e6 + 1e3 * number);
    if (number == 3 || number == 4) {
      reply.incumbent_fault = "out of memory";
      reply.faulty_incumbent = work_.timed[0].artifact;
    }
    return reply;
  };
  const auto tuned = run({.trials = 5, .batch = 5});
  ASSERT_TRUE(tuned) << tuned.error().message;
  const std::vector<MeasureJob>& timed = work_.timed;
  ASSERT_GE(timed.size(), 5u);
  EXPECT_EQ(timed[3].incumbent, timed[1].artifact);
  EXPECT_EQ(timed[4].incumbent, timed[1].artifact);
  EXPECT_EQ(tuned->failures.at("the fastest kernel so far: out of memory"), 1);
}

// The machine becomes slower at the second trial and stays so for longer than an episode. After the
// fifth trial it is fast again.
TEST_F(TuningLoop, CandidatesAreJudgedByThePresentSpeedOfTheMachine) {
  work_.measure = [&](const MeasureJob& job) -> Result<MeasureReply> {
    const size_t number = work_.timed.size();
    MeasureReply reply = timed_reply(1e6 + 1e3 * static_cast<double>(number));
    if (number > 1 && number <= 5) {
      now_ns_ += 16 * second;
      reply = MeasureReply{.status = TrialStatus::Unstable, .reason = "as told"};
    }
    const double present_ns = number <= 5 && number > 1 ? 1.4e6 : 1e6;
    if (job.incumbent_ns > 0) reply.incumbent_pace = present_ns / job.incumbent_ns;
    return reply;
  };
  const auto tuned = run({.budget_s = 3600, .trials = 16, .batch = 8});
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_GE(work_.timed.size(), 8u);
  EXPECT_NEAR(work_.timed[1].incumbent_ns, 1e6, 1e4);
  EXPECT_NEAR(work_.timed[3].incumbent_ns, 1e6, 1e4);
  EXPECT_NEAR(work_.timed[5].incumbent_ns, 1.4e6, 1e4);  // slower for more than 30 s
  EXPECT_NEAR(work_.timed[6].incumbent_ns, 1e6, 1e4);    // the machine is as fast as before
}

}  // namespace
}  // namespace tw::tuner
