// SPDX-License-Identifier: Apache-2.0
// Tests runs of one workload that share a database server. Their workers are fake.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "db/claims.h"
#include "tests/db/postgres_server.h"
#include "tests/tuner/fake_workers.h"
#include "tuner/trial_record.h"
#include "tuner/tune.h"
#include "tuner/workers/device.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;

class SideBySide : public testing::Test {
 protected:
  Result<Tuned> run(const std::string& session, const TuneOptions& options, FakeWork& work) {
    Environment environment = test_environment();
    environment.session = session;
    environment.notes = &notes_;
    TW_TRY(db::Store store,
           db::Store::open(address_, db::OpenMode::ReadWrite, {.spool_directory = folder_.path()}));
    TW_TRY(std::vector<Result<Tuned>> results,
           tune_all({{.workload = workload_, .schedule = schedule_, .insists = true}}, work.target,
                    options, store, environment, {}, fake_workers(folder_, work)));
    return std::move(results[0]);
  }
  std::vector<db::Record> records() {
    db::Store store = open_store(address_);
    return store.query({}).value();
  }
  db::Record record_of(const std::string& session, const std::string& schedule,
                       double latency_ns) const {
    db::Record record = trial_record(workload_, FakeWork().target, 1, "fake-1.0", schedule,
                                     timed_reply(latency_ns), 1e3);
    record.host = "of " + session;
    record.session = session;
    record.program_version = "0";
    record.created_ms = 1'700'000'000'000;
    return db::seal(std::move(record));
  }

  Folder folder_;
  Notes notes_;
  std::string address_ = db::PostgresServer::shared().make_database();
  dsl::Workload workload_ = workload_of(small);
  std::string schedule_ = {};  ///< that runs begin with
};

// Both runs begin with the same seed and therefore propose the same points.
TEST_F(SideBySide, NoScheduleIsMeasuredTwice) {
  FakeWork first, second;
  const TuneOptions options{.budget_s = 600, .trials = 32, .batch = 4};
  std::thread beside([&] { (void)run("first", options, first); });
  const auto tuned = run("second", options, second);
  beside.join();
  ASSERT_TRUE(tuned) << tuned.error().message;
  std::map<std::string, std::set<std::string>> sessions;
  for (const db::Record& record : records()) sessions[record.schedule].insert(record.session);
  EXPECT_GE(sessions.size(), 60u);
  for (const auto& [schedule, by] : sessions) EXPECT_EQ(by.size(), 1u) << schedule;
}

TEST_F(SideBySide, ARunKnowsTheTrialsOfOthers) {
  FakeWork work;
  int64_t measured = 0;
  const db::Record other = record_of("other", "tw1\nsplit out m 7\n", 5e5);
  work.measure = [&](const MeasureJob&) {
    db::Store store = open_store(address_);
    if (++measured == 3) {
      EXPECT_TRUE(store.append({&other, 1}));
    }
    return timed_reply(1e6);
  };
  const auto tuned = run("own", {.budget_s = 600, .trials = 16, .batch = 4}, work);
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->progress.known_trials, 1);
  EXPECT_EQ(tuned->best.schedule, other.schedule) << "the finals time it here";
}

TEST_F(SideBySide, AScheduleThatIsInsistedOnIsMeasuredAgain) {
  FakeWork work;
  schedule_ = "tw1\nsplit out m 7\n";
  const db::Record other = record_of("other", schedule_, 2e6);
  db::Store store = open_store(address_);
  ASSERT_TRUE(store.append({&other, 1}));
  const auto tuned = run("own", {.budget_s = 600, .trials = 8, .batch = 4}, work);
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->progress.given_ns, 1e6) << "the first that is timed";
}

TEST_F(SideBySide, OneRunComparesAtTheEnd) {
  FakeWork work;
  const db::Record other = record_of("other", "tw1\nsplit out m 7\n", 5e5);
  db::Store store = open_store(address_);
  ASSERT_TRUE(store.append({&other, 1}));
  const db::Key place = database_key(workload_, work.target, 1);
  const std::string finals(db::finals_claim);
  ASSERT_EQ(db::claim(store, place, {&finals, 1}, "other", "host").value(),
            std::vector<bool>{true});
  std::atomic<bool> has_ended = false;
  work.verify = [&](const MeasureJob& job) {
    EXPECT_TRUE(has_ended) << "it waits for the winner of the other run";
    EXPECT_EQ(work.schedules.at(job.artifact), other.schedule);
    return MeasureReply{};
  };
  std::thread beside([&] {
    db::Store own = open_store(address_);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    has_ended = true;
    EXPECT_TRUE(db::release(own, place, "other"));
  });
  const auto tuned = run("own", {.budget_s = 600, .trials = 8, .batch = 4}, work);
  beside.join();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.hash, other.hash);
  EXPECT_EQ(std::ranges::count(records(), "own", &db::Record::session), 7)
      << "the finals would have made the eighth";
}

TEST_F(SideBySide, AWinnerOfOthersThatIsWrongHereIsNotTaken) {
  FakeWork work;
  const db::Record other = record_of("other", "tw1\nsplit out m 7\n", 5e5);
  db::Store store = open_store(address_);
  ASSERT_TRUE(store.append({&other, 1}));
  const db::Key place = database_key(workload_, work.target, 1);
  const std::string finals(db::finals_claim);
  ASSERT_TRUE(db::claim(store, place, {&finals, 1}, "other", "host"));
  const auto is_other = [&](const MeasureJob& job) {
    return work.schedules.at(job.artifact) == other.schedule;
  };
  work.verify = [&](const MeasureJob& job) {
    return MeasureReply{is_other(job) ? TrialStatus::Wrong : TrialStatus::Ok};
  };
  work.measure = [&](const MeasureJob& job) {
    return is_other(job) ? MeasureReply{TrialStatus::Wrong} : timed_reply(1e6);
  };
  const auto tuned = run("own", {.budget_s = 3, .trials = 8, .batch = 4}, work);
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_NE(tuned->best.schedule, other.schedule);
}

TEST_F(SideBySide, Fault101_ARunGoesOnAloneWithoutItsServer) {
  db::PostgresServer server;
  address_ = server.make_database();
  FakeWork work;
  int64_t measured = 0;
  work.measure = [&](const MeasureJob&) {
    if (++measured == 3) server.stop();
    return timed_reply(1e6 - static_cast<double>(measured));
  };
  const auto tuned = run("own", {.budget_s = 600, .trials = 16, .batch = 4}, work);
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(total(tuned->progress), 16);
  EXPECT_TRUE(std::ranges::any_of(
      notes_.all(), [](const Note& note) { return note.kind == NoteKind::ClaimsUnread; }));
}

TEST_F(SideBySide, ClaimsEndWithTheRun) {
  FakeWork work;
  ASSERT_TRUE(run("own", {.budget_s = 600, .trials = 8, .batch = 4}, work));
  const auto connection = db::PostgresConnection::open(address_, {});
  ASSERT_TRUE(connection);
  EXPECT_EQ((*connection)->integer("SELECT count(*) FROM claims").value(), 0);
}

}  // namespace
}  // namespace tw::tuner
