// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "codegen/abi.h"
#include "db/calibration.h"
#include "db/maintenance.h"
#include "runtime/kernel.h"
#include "schedules/schedule.h"
#include "tests/tuner/tuning.h"
#include "tuner/host_machine.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

using testing::HasSubstr;

class Tune : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  }

  Result<Tuned> run(const TuneOptions& options, const Environment& environment = test_environment(),
                    const OnProgress& on_progress = {}) {
    auto store = open_store(folder_ / "t.db");
    return tune(workload_, target_, options, store, environment, on_progress);
  }

  /// Returns an environment whose workers start a script in place of `ld`. Once folder_/broken
  /// exists, the script runs `body` before it calls the real linker. The target gets one core, so
  /// that no candidate is built during the measurement of the reference, i.e. before the linker
  /// breaks.
  Environment with_linker(const std::string& body) {
    target_.machine.cores = 1;
    folder_.script("ld", "if [ -e " + (folder_ / "broken") + " ]; then\n" + body +
                             "\nfi\nPATH=/usr/local/bin:/usr/bin:/bin exec ld \"$@\"");
    return test_environment({folder_.script(
        "worker", "PATH=" + folder_.path() + ":$PATH exec " TW_TUNING_WORKER " \"$@\"")});
  }

  /// Breaks the linker once the reference has been built.
  OnProgress break_when_prepared() {
    return [this](const Progress& progress) {
      if (progress.peak_gflops > 0) std::ofstream(folder_ / "broken") << "now";
    };
  }

  Folder folder_;
  dsl::Workload workload_ = workload_of(small);
  Target target_ = host_target();
};

// The test cannot ensure that this machine is quiet enough to be calibrated. If it is not, the
// records name the assumed machine.
TEST_F(Tune, AProcessorThatIsInNoTableIsCalibratedOnceAndNamedInItsRecords) {
  Target unknown = host_target();
  unknown.machine.origin = MachineOrigin::Assumed;
  auto store = open_store(folder_ / "t.db");
  const auto tuned_once = [&] {
    return tune(workload_, unknown, {.trials = 2, .batch = 2}, store, test_environment(), {});
  };
  const auto first = tuned_once();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->progress.machine_note.empty());
  const auto calibrations = db::calibrations(store).value();
  const bool is_calibrated = !calibrations.empty();
  const tw::Machine machine =
      is_calibrated ? parse_machine(calibrations[0].machine).value() : unknown.machine;
  const std::vector<db::Record> records = store.query({}).value();
  EXPECT_GE(records.size(), 2u);
  for (const db::Record& record : records) {
    EXPECT_EQ(record.machine, provenance(machine));
    EXPECT_EQ(record.device, device_text(unknown));
  }
  const auto second = tuned_once();
  ASSERT_TRUE(second) << second.error().message;
  if (!is_calibrated) return;
  EXPECT_EQ(second->progress.machine_note, "");
  EXPECT_EQ(db::calibrations(store).value().size(), 1u);
  EXPECT_EQ(second->best.machine, provenance(machine));
}

TEST_F(Tune, Fault48_AProcessorThatCannotBeMeasuredIsAssumed) {
  Target unknown = host_target();
  unknown.machine.origin = MachineOrigin::Assumed;
  auto store = open_store(folder_ / "t.db");
  const auto tuned = tune(workload_, unknown, {.trials = 2, .batch = 2}, store,
                          test_environment({TW_TUNING_WORKER, "disturbed", "0"}), {});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_THAT(tuned->progress.machine_note, HasSubstr("as told; meanwhile it is taken for"));
  EXPECT_EQ(tuned->best.machine, provenance(unknown.machine));
  EXPECT_TRUE(db::calibrations(store).value().empty());
}

TEST_F(Tune, FindsAndStoresAKernelThatRuns) {
  std::vector<Progress> seen;
  const auto tuned = run({.trials = 12, .batch = 4}, test_environment(),
                         [&](const Progress& progress) { seen.push_back(progress); });
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Trials);
  EXPECT_EQ(total(tuned->progress), 12);
  EXPECT_EQ(total(seen.front()), 0);
  EXPECT_EQ(tuned->best.workload, workload_.key());
  EXPECT_TRUE(runtime::Kernel::load(tuned->artifact));
  auto store = open_store(folder_ / "t.db");
  const auto records = store.query({});
  ASSERT_TRUE(records);
  EXPECT_EQ(records->size(), 12u);
  std::set<std::string> schedules;
  for (const db::Record& record : *records) schedules.insert(record.schedule);
  EXPECT_EQ(schedules.size(), 12u);
  const auto best = best_known(store, workload_, host_target(), 1);
  ASSERT_TRUE(best && *best);
  const auto built =
      build_schedule(workload_, (*best)->schedule, host_target(), 1, true, test_environment());
  EXPECT_TRUE(built) << built.error().message;
}

// The kernel is verified like any other, and its arguments keep the layouts that were asked for.
TEST_F(Tune, LayoutsThatAreAskedForAreThoseOfTheKernel) {
  workload_ = dsl::with_layouts(workload_, {{"a", "MK8k"}, {"out", "NM"}}).value();
  const auto tuned = run({.trials = 6, .batch = 3});
  ASSERT_TRUE(tuned) << tuned.error().message;
  std::map<std::string, std::string> layouts;
  for (const runtime::ArgumentInfo& argument : tuned->artifact.info.arguments)
    layouts[argument.name] = argument.layout;
  EXPECT_EQ(layouts["a"], "MK8k");
  EXPECT_EQ(layouts["out"], "NM");
  auto store = open_store(folder_ / "t.db");
  EXPECT_EQ(best_known(store, workload_, host_target(), 1).value()->schedule, tuned->best.schedule);
  EXPECT_EQ(best_known(store, workload_of(small), host_target(), 1).value(), std::nullopt);
  const auto again = run({.effort = Effort::None});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->best, tuned->best);
  const auto measured =
      measure_schedule(workload_, tuned->best.schedule, host_target(), 1, test_environment());
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->layouts, "a=MK8k out=NM");
}

TEST_F(Tune, Fault76_LongSumsAreTuned) {
  for (const char* key :
       {"expr strict input x: f32[1, 25088]; s: f32[i=1] = sum(k=25088) x[i, k]; "
        "mean: f32[i=1] = s[i] / 25088.0",
        "expr fast input x: f32[4, 25088]; s: f32[i=4] = sum(k=25088) x[i, k]; "
        "m: f32[i=4] = s[i] / 25088.0; "
        "v: f32[i=4] = sum(k=25088) (x[i, k] - m[i]) * (x[i, k] - m[i]); "
        "variance: f32[i=4] = v[i] / 25088.0",
        "expr fast input x: f32[2000000]; s: f32[i=1] = sum(k=2000000) x[k] * x[k]; "
        "norm: f32[i=1] = sqrt(s[i])"}) {
    workload_ = workload_of(key);
    const auto tuned = run({.trials = 4, .batch = 4});
    ASSERT_TRUE(tuned) << key << ": " << tuned.error().message;
    EXPECT_EQ(tuned->progress.trials.count("wrong"), 0u) << key;
  }
}

TEST_F(Tune, WithoutEffortTheDatabaseAnswers) {
  const auto empty = run({.effort = Effort::None});
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::NoCandidate);
  ASSERT_TRUE(run({.trials = 4, .batch = 4}));
  const auto known = run({.effort = Effort::None});
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->ended, Ended::FromDatabase);
  EXPECT_EQ(known->progress.known_trials, 4);
}

TEST_F(Tune, QuickEndsWhenTheNextMinuteIsWorthLittle) {
  std::optional<double> last;
  const auto tuned = run({.budget_s = 600, .effort = Effort::Quick}, test_environment(),
                         [&](const Progress& p) { last = p.next_gain ? p.next_gain : last; });
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Plateau);
  ASSERT_TRUE(last);
  EXPECT_LT(tuned->next_minute_gain, 0.02);
  EXPECT_FALSE(tuned->progress.next_gain);
}

TEST_F(Tune, Fault31_AnInterruptKeepsTheBestSoFar) {
  std::atomic<int> interrupts = 0;
  Environment environment = test_environment();
  environment.interrupts = &interrupts;
  const auto tuned = run({.batch = 4}, environment, [&](const Progress& progress) {
    if (progress.best_ns > 0) interrupts = 1;
  });
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Interrupted);
  auto store = open_store(folder_ / "t.db");
  const auto info = store.info();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->records, total(tuned->progress));
}

TEST_F(Tune, Fault31_AnInterruptBeforeAnythingIsFoundIsAnError) {
  const std::atomic<int> interrupts = 1;
  Environment environment = test_environment();
  environment.interrupts = &interrupts;
  const auto tuned = run({.batch = 4}, environment);
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Interrupted);
}

TEST_F(Tune, Fault31_AnInterruptIsAnsweredThoughTheWinnerCannotBeBuilt) {
  // The linker works during the trials. After that it hangs, and waiting for the linker alone would
  // take a minute.
  std::atomic<int> interrupts = 0;
  Environment environment = with_linker("sleep 1000");
  environment.interrupts = &interrupts;
  int64_t interrupted_ns = 0;
  const auto tuned = run({.trials = 4, .batch = 4}, environment, [&](const Progress& progress) {
    if (total(progress) < 4) return;
    std::ofstream(folder_ / "broken") << "now";
    interrupted_ns = environment.clock();
    interrupts = 1;
  });
  EXPECT_LT(environment.clock() - interrupted_ns, 10 * 2'000'000'000LL);
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Interrupted) << tuned.error().message;
  EXPECT_THAT(tuned.error().message, HasSubstr("its trials are stored"));
  auto store = open_store(folder_ / "t.db");
  EXPECT_EQ(store.info()->records, 4);
}

TEST_F(Tune, Fault31_AnInterruptGivesUpTrialsThatAreBeingBuilt) {
  std::atomic<int> interrupts = 0;
  Environment environment = with_linker("sleep 1000");
  environment.interrupts = &interrupts;
  const Clock clock = environment.clock;
  std::optional<int64_t> hanging_since_ns;
  // The tuner reads the clock while it waits for the builder, so the interrupt comes during the
  // build.
  environment.clock = [&] {
    if (hanging_since_ns && clock() - *hanging_since_ns > 1'000'000'000) interrupts = 1;
    return clock();
  };
  const auto tuned = run({.budget_s = 600, .batch = 4}, environment, [&](const Progress& progress) {
    if (progress.peak_gflops <= 0 || hanging_since_ns) return;
    std::ofstream(folder_ / "broken") << "now";
    hanging_since_ns = clock();
  });
  EXPECT_LT(clock() - *hanging_since_ns, 10 * 2'000'000'000LL);
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Interrupted) << tuned.error().message;
  auto store = open_store(folder_ / "t.db");
  EXPECT_EQ(store.info()->records, 0) << "what was given up has no fault";
}

TEST_F(Tune, Fault31_TwoInterruptsLoseAtMostABatch) {
  std::atomic<int> interrupts = 0;
  Environment environment = test_environment();
  environment.interrupts = &interrupts;
  int64_t reported = 0;
  (void)run({.batch = 4}, environment, [&](const Progress& progress) {
    reported = total(progress);
    if (reported >= 6) interrupts = 2;
  });
  auto store = open_store(folder_ / "t.db");
  const auto report = db::verify(store);
  ASSERT_TRUE(report && report->ok());
  EXPECT_GE(report->records, reported - 4);
}

TEST_F(Tune, Fault41_WhenEveryCandidateFailsTheReasonsAreTold) {
  // The linker blames each object in messages that differ in numbers only.
  const Environment environment = with_linker("echo \"symbol $$ not defined\" >&2; exit 1");
  const auto tuned = run({.budget_s = 600}, environment, break_when_prepared());
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::NoCandidate) << tuned.error().message;
  EXPECT_THAT(tuned.error().message, HasSubstr("x compile_error: "));
  EXPECT_THAT(tuned.error().message, HasSubstr("not defined"));
  EXPECT_THAT(tuned.error().message,
              testing::Not(HasSubstr("; 1 x ")));  // one reason, not a hundred
  EXPECT_THAT(tuned.error().message, HasSubstr("the default schedule still runs"));
}

TEST_F(Tune, Fault42_AFailingLinkerEndsTheRunWithItsWords) {
  const Environment environment = with_linker("echo 'no space left on planet' >&2; exit 1");
  const auto tuned = run({.budget_s = 600}, environment, break_when_prepared());
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Environment) << tuned.error().message;
  EXPECT_THAT(tuned.error().message, HasSubstr("no space left on planet"));
  EXPECT_THAT(tuned.error().message, HasSubstr("24 candidates in a row could not be built"));
  auto store = open_store(folder_ / "t.db");
  EXPECT_EQ(store.info()->records, 0) << "the schedules are not at fault";
}

TEST_F(Tune, Fault42_ALinkerThatWritesNothingOrDiesEndsTheRun) {
  for (const char* body : {"exit 0", "kill -SEGV $$"}) {
    std::filesystem::remove(folder_ / "broken");
    const auto tuned = run({.budget_s = 600}, with_linker(body), break_when_prepared());
    ASSERT_FALSE(tuned) << body;
    EXPECT_EQ(tuned.error().code, ErrorCode::Environment) << tuned.error().message;
  }
}

TEST_F(Tune, Fault42_ALinkerThatHangsEndsTheRun) {
  const auto tuned = run({.budget_s = 600, .batch = 24, .timeout_s = 1}, with_linker("sleep 1000"),
                         break_when_prepared());
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Environment) << tuned.error().message;
}

TEST_F(Tune, Fault42_AMissingLinkerIsToldAtOnce) {
  const Environment environment = test_environment(
      {folder_.script("worker", "PATH=" + folder_.path() + " exec " TW_TUNING_WORKER " \"$@\"")});
  const auto tuned = run({}, environment);
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Environment);
  EXPECT_THAT(tuned.error().message, HasSubstr("ld"));
}

TEST_F(Tune, Fault42_ALinkerThatFailsNowAndThenCostsItsCandidatesOnly) {
  // The linker fails where its process ID is a multiple of 3, i.e. about every third call.
  const Environment environment = with_linker("[ $(($$ % 3)) = 0 ] && exit 1");
  const auto tuned = run({.trials = 24}, environment, break_when_prepared());
  // The winner is linked once more at the end, and this call may fail too.
  if (!tuned) {
    EXPECT_EQ(tuned.error().code, ErrorCode::Internal) << tuned.error().message;
  }
  auto store = open_store(folder_ / "t.db");
  const auto info = store.info();
  ASSERT_TRUE(info);
  EXPECT_GE(info->records, 24);
  EXPECT_FALSE(info->by_status.contains("compile_error")) << "the schedules are not at fault";
}

TEST_F(Tune, Fault44_RecordsThatTeachNothingEndNoRun) {
  auto store = open_store(folder_ / "t.db");
  std::vector<db::Record> records;
  for (int i = 0; i < 80; ++i) {
    db::Record record;
    record.op = workload_.op;
    record.workload = i % 2 ? workload_.key() : "dense m=16 n=32 k=16 f32 fast";
    record.target = host_target().to_string();
    record.device = device_text(host_target());
    record.threads = 1;
    record.codegen_abi = codegen::codegen_abi;
    // The text is either no schedule, or the same schedule with the same latency each time.
    record.schedule = i % 4 ? "tw1" : "tw9 nonsense " + std::to_string(i);
    record.samples_ns = {1000};
    record.latency_ns = record.latency_low_ns = record.latency_high_ns = 1000;
    record.flops = 1;
    record.trial = i;
    record.created_ms = 1'700'000'000'000;
    records.push_back(db::seal(std::move(record)));
  }
  ASSERT_TRUE(store.append(records));
  const auto tuned =
      tune(workload_, host_target(), {.trials = 4, .batch = 4}, store, test_environment(), {});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_THAT(tuned->progress.model, ::testing::Not(HasSubstr("corrected by")));
  EXPECT_GT(tuned->best.latency_ns, 0);
}

TEST_F(Tune, Fault46_AWallClockThatJumpsChangesNothing) {
  Environment environment = test_environment();
  int64_t calls = 0;
  environment.now_ms = [&calls] {
    return 1'700'000'000'000 + (++calls % 2 ? -86'400'000 : 86'400'000);
  };
  const auto tuned = run({.trials = 4, .batch = 4}, environment);
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(total(tuned->progress), 4);
  EXPECT_LT(tuned->progress.elapsed_s, 3600);
}

TEST_F(Tune, Fault74_WhatWasDisturbedIsMeasuredAgainWithLaterBatches) {
  const auto tuned =
      run({.trials = 12, .batch = 4}, test_environment({TW_TUNING_WORKER, "disturbed", "2"}));
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->progress.trials.count("unstable"), 0u);
  EXPECT_EQ(total(tuned->progress), 12);
}

TEST_F(Tune, Fault74_WhatIsAlwaysDisturbedIsStoredWithoutALatency) {
  const auto tuned =
      run({.trials = 8, .batch = 4}, test_environment({TW_TUNING_WORKER, "disturbed", "100"}));
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::TryLater);
  EXPECT_THAT(tuned.error().message, HasSubstr("as told"));
  auto store = open_store(folder_ / "t.db");
  const auto records = store.query({});
  ASSERT_TRUE(records);
  EXPECT_FALSE(records->empty());
  for (const db::Record& record : *records) {
    EXPECT_NE(record.status, db::TrialStatus::Ok);
    EXPECT_EQ(record.latency_ns, 0);
  }
}

TEST_F(Tune, AWorkerProgramThatIsNoneIsAnEnvironmentError) {
  for (const std::string& program : {folder_ / "absent", std::string("/bin/true")}) {
    const auto tuned = run({}, test_environment({program}));
    ASSERT_FALSE(tuned) << program;
    EXPECT_EQ(tuned.error().code, ErrorCode::Environment) << tuned.error().message;
  }
}

}  // namespace
}  // namespace tw::tuner
