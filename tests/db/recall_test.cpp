// SPDX-License-Identifier: Apache-2.0
#include "db/recall.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/db/backends.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

class Recall : public OnBackends {};

/// Returns a trial with this number by the session with this number. A larger `number` is slower.
Record numbered_trial(int64_t session, int64_t number) {
  Record record = sample_record(number);
  record.session = fmt::format("session {}", session);
  record.host = fmt::format("host {}", session);
  return seal(std::move(record));
}

Record that_ended(Record record, TrialStatus status) {
  record.status = status;
  if (status != TrialStatus::Unstable) {
    record.latency_ns = record.latency_low_ns = record.latency_high_ns = 0;
    record.samples_ns.clear();
  }
  return seal(std::move(record));
}

TEST_P(Recall, OfAPlaceWithFewTrialsItGivesAll) {
  Store store = open_store(databases / "a.db");
  std::vector<Record> records;
  for (int64_t i = 0; i < 20; ++i) records.push_back(numbered_trial(i % 2, i));
  records.push_back(that_ended(numbered_trial(0, 20), TrialStatus::Crash));
  ASSERT_TRUE(store.append(records));
  ASSERT_TRUE(store.append({{sample_record(1, 1), with_layouts(sample_record(2), "in=NHWC")}}));
  const RecalledTrials recalled = recall(store, key_of(records[0]), 100).value();
  EXPECT_EQ(recalled.known, 21);
  ASSERT_EQ(recalled.trials.size(), 21u);
  EXPECT_EQ(recalled.trials[0].record, records[20]);  // it has no latency, so it comes first
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(recalled.trials[i + 1].record, records[i]);
}

TEST_P(Recall, OfALargePlaceItGivesTheFastestAndASample) {
  Store store = open_store(databases / "a.db");
  std::vector<Record> records;
  for (int64_t i = 0; i < 400; ++i) records.push_back(numbered_trial(i % 3, i));
  // With a peak that was measured under disturbance, trials look fast.
  for (int64_t i = 400; i < 440; ++i) {
    records.push_back(numbered_trial(i % 3, i));
    records.back().peak_gflops = 40;
    records.back() = seal(records.back());
  }
  ASSERT_TRUE(store.append(records));
  const RecalledTrials recalled = recall(store, key_of(records[0]), 80).value();
  EXPECT_EQ(recalled.known, 440);
  ASSERT_GT(recalled.trials.size(), 60u);
  ASSERT_LE(recalled.trials.size(), 80u);
  for (size_t i = 0; i < 60; ++i) EXPECT_EQ(recalled.trials[i].record, records[i]);
  int64_t slow = 0;
  for (size_t i = 60; i < recalled.trials.size(); ++i)
    slow += recalled.trials[i].record.trial > 200;
  EXPECT_GT(slow, 2);
}

// Each doubt must be the one that all trials of the group give, even if only a part is recalled.
TEST_P(Recall, APartIsJudgedByAll) {
  Store store = open_store(databases / "a.db");
  Random random(3);
  std::vector<Record> records;
  for (int64_t i = 0; i < 300; ++i) {
    Record record = numbered_trial(random.below(6), i);
    record.schedule = fmt::format("tw1 schedule {}", random.below(120));
    const double clock = record.session == "session 5" ? 0.5 : 1;
    records.push_back(with_latency(std::move(record),
                                   clock * (9e3 + 10.0 * static_cast<double>(random.below(200)))));
  }
  ASSERT_TRUE(store.append(records));
  std::map<std::string, Doubt> expected;
  int64_t doubted = 0;
  const RecalledTrials all = recall(store, key_of(records[0]), 1000).value();
  for (const RecalledTrial& trial : all.trials) expected[trial.record.hash] = trial.doubt;
  ASSERT_EQ(expected.size(), 300u);
  const RecalledTrials part = recall(store, key_of(records[0]), 120).value();
  for (const RecalledTrial& trial : part.trials) {
    EXPECT_EQ(trial.doubt, expected.at(trial.record.hash));
    doubted += trial.doubt != Doubt::None;
  }
  EXPECT_GT(doubted, 10);
}

TEST_P(Recall, AScheduleOfWhichNothingIsProvenIsTriedAgain) {
  Store store = open_store(databases / "a.db");
  const std::vector<Record> records = {numbered_trial(0, 0),
                                       that_ended(numbered_trial(0, 1), TrialStatus::Unstable),
                                       that_ended(numbered_trial(0, 2), TrialStatus::Lost),
                                       that_ended(numbered_trial(0, 3), TrialStatus::Timeout),
                                       that_ended(numbered_trial(0, 4), TrialStatus::Crash),
                                       that_ended(numbered_trial(1, 5), TrialStatus::Crash),
                                       that_ended(numbered_trial(2, 5), TrialStatus::Wrong)};
  ASSERT_TRUE(store.append(records));
  const auto settled = [&](const std::string& host) {
    std::vector<int64_t> numbers;
    const TriedSchedules tried = db::tried(store, key_of(records[0]), host).value();
    EXPECT_EQ(tried.known, 6);
    for (const Record& record : records)
      if (tried.settled.contains(schedule_key(record.schedule)) &&
          (numbers.empty() || numbers.back() != record.trial))
        numbers.push_back(record.trial);
    return numbers;
  };
  EXPECT_EQ(settled("host 0"), (std::vector<int64_t>{0, 3, 4, 5}));
  EXPECT_EQ(settled("host 9"), (std::vector<int64_t>{0, 3, 5})) << "one session alone says so";
  EXPECT_EQ(settled(""), (std::vector<int64_t>{0, 3, 4, 5}));
}

TEST_P(Recall, PlacesAreThoseWithTheNearestNumberOfOperations) {
  Store store = open_store(databases / "a.db");
  std::vector<Record> records;
  for (int64_t i = 0; i < 40; ++i) {
    records.push_back(sample_record(i, i));
    records.back().flops = 1e3 * static_cast<double>(i + 1);
    records.back() = seal(records.back());
  }
  ASSERT_TRUE(store.append(records));
  const std::vector<Place> places = db::places(store, "matmul", 1, 1, 20e3, 3).value();
  std::set<std::string> workloads;
  for (const Place& place : places) workloads.insert(place.workload);
  std::set<std::string> expected;
  for (int64_t i = 16; i < 22; ++i) expected.insert(records[static_cast<size_t>(i)].workload);
  EXPECT_EQ(workloads, expected);
}

TEST_P(Recall, OfAPlaceThatIsUnknownThereIsNothing) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(store.append({{sample_record(0)}}));
  for (Key key : {key_of(sample_record(1, 7)), key_of(sample_record(0))}) {
    if (key.workload == sample_record(0).workload) key.device = "Another CPU";
    EXPECT_EQ(recall(store, key, 10).value().known, 0);
    EXPECT_EQ(db::tried(store, key, "host").value().known, 0);
  }
}

TW_ON_BACKENDS(Recall);

}  // namespace
}  // namespace tw::db
