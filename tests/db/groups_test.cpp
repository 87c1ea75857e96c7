// SPDX-License-Identifier: Apache-2.0
#include "db/tables/groups.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "db/maintenance.h"
#include "db/overview.h"
#include "db/store.h"
#include "tests/db/backends.h"
#include "tests/db/samples.h"
#include "tests/nightly.h"

namespace tw::db {
namespace {

class AnyGroups : public OnBackends {};

template <typename T, size_t N>
T one_of(Random& random, const T (&values)[N]) {
  return values[random.below(N)];
}

/// Returns a trial of one of 12 schedules by one of `sessions` sessions. Their clocks, peaks and
/// failures give cause for every kind of doubt.
Record random_trial(Random& random, int64_t number, int sessions) {
  Record record = sample_record(number);
  const int64_t session = random.below(sessions), schedule = random.below(12);
  record.session = fmt::format("session {}", session);
  // Every fifth session is a farm with several hosts.
  record.host = fmt::format("host {}", session % 5 == 4 ? random.below(3) : session % 3);
  record.toolchain = fmt::format("toolchain {}", random.below(8) == 0);
  record.schedule = fmt::format("tw1 schedule {}", schedule);
  record.status = one_of(
      random, {TrialStatus::Ok, TrialStatus::Ok, TrialStatus::Ok, TrialStatus::Ok, TrialStatus::Ok,
               TrialStatus::Ok, TrialStatus::Unstable, TrialStatus::Wrong, TrialStatus::Timeout});
  const double clock = session == 3 ? 0.5 : 1, luck = random.below(9) == 0 ? 0.3 : 1;
  record.peak_gflops = one_of(random, {0.0, 50.0, 100.0, 100.0, 100.0, 110.0, 150.0});
  record.bytes = 1e6;
  record.peak_gb_per_s = 100;
  return with_latency(std::move(record), (10e3 + 500.0 * static_cast<double>(schedule) +
                                          static_cast<double>(random.below(400))) *
                                             clock * luck);
}

// verify() judges all trials of a group. A commit reads only the trials that may be the best one,
// and must come to the same result.
TEST_P(AnyGroups, WhatACommitDerivesIsWhatAllTrialsGive) {
  const uint64_t seeds = is_nightly() ? 300 : 12;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int sessions = 1 + static_cast<int>(random.below(9));
    Store store = open_store(databases / fmt::format("{}.db", seed));
    std::vector<Record> stored;
    for (int batch = 0; batch < 14; ++batch) {
      std::vector<Record> records;
      const int64_t many = batch % 5 == 4 ? 40 : 1 + random.below(6);
      for (int64_t i = 0; i < many; ++i)
        records.push_back(random_trial(random, std::ssize(stored) + i, sessions));
      ASSERT_TRUE(store.append(records));
      stored.insert(stored.end(), records.begin(), records.end());
      const VerifyReport report = verify(store).value();
      ASSERT_EQ(report.wrong_best, 0) << "batch " << batch;
      ASSERT_TRUE(report.ok());
    }
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(
          drop_record(store, stored[static_cast<size_t>(random.below(std::ssize(stored)))]));
      ASSERT_EQ(verify(store).value().wrong_best, 0);
    }
  }
}

TEST_P(AnyGroups, AGroupThatLosesItsLastTrialIsGone) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(store.append({{sample_record(0), sample_record(1, 1)}}));
  ASSERT_TRUE(drop_record(store, sample_record(0)));
  EXPECT_EQ(db::groups(store, 9).value().size(), 1u);
  EXPECT_EQ(store.info().value().workloads, 1);
  EXPECT_TRUE(verify(store).value().ok());
  EXPECT_EQ(store.append({{sample_record(0)}}).value().inserted, 1);
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(0));
  EXPECT_TRUE(verify(store).value().ok());
}

TEST_P(AnyGroups, WhatSomebodyChangedIsNoticedAndDerivedAnew) {
  const std::string path = databases / "a.db";
  Store store = open_store(path);
  std::vector<Record> records;
  for (int64_t i = 0; i < 8; ++i) {
    Record record = sample_record(i);
    record.session = fmt::format("session {}", i % 4);
    record.schedule = fmt::format("tw1 schedule {}", i / 4);
    records.push_back(seal(record));
  }
  ASSERT_TRUE(store.append(records));
  ASSERT_TRUE(verify(store).value().ok());
  for (const char* change : {"UPDATE groups SET trials = trials + 1", "UPDATE groups SET last = 1",
                             "UPDATE sessions SET least_cost = 1",
                             "UPDATE sessions SET peak_gflops = 7", "UPDATE peaks SET trials = 7",
                             "DELETE FROM shared", "DELETE FROM statuses", "DELETE FROM best"}) {
    SCOPED_TRACE(change);
    run_in(path, change);
    EXPECT_GT(verify(store).value().wrong_best, 0);
    ASSERT_TRUE(derive_best(store));
    EXPECT_TRUE(verify(store).value().ok());
  }
}

// There are more trials than derive_best() reads at once.
TEST_P(AnyGroups, GroupsThatAreLostAreMadeAnew) {
  const std::string path = databases / "a.db";
  Store store = open_store(path);
  std::vector<Record> records;
  for (int64_t i = 0; i < 1300; ++i) {
    Record record = sample_record(i);
    record.session = fmt::format("session {}", i % 4);
    record.schedule = fmt::format("tw1 schedule {}", i % 100 / 4);
    record.peak_gflops = i < 1000 ? 100 : 110;
    records.push_back(seal(record));
  }
  ASSERT_TRUE(store.append(records));
  const auto best = store.best(key_of(records[0])).value();
  run_in(path, "DELETE FROM groups; DELETE FROM sessions");
  EXPECT_GT(verify(store).value().wrong_best, 0);
  ASSERT_TRUE(derive_best(store));
  EXPECT_TRUE(verify(store).value().ok());
  EXPECT_EQ(store.best(key_of(records[0])).value(), best);
}

TW_ON_BACKENDS(AnyGroups);

}  // namespace
}  // namespace tw::db
