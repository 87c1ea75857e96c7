// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/random.h"
#include "db/answers.h"
#include "db/demand.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "tests/db/backends.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

Record with_status(Record record, TrialStatus status) {
  record.status = status;
  return seal(std::move(record));
}

/// Returns one fast record, two slow ones, a pruned one and a wrong one.
std::vector<Record> mixed_records() {
  return {sample_record(0), with_latency(sample_record(1), 25e3),
          with_latency(sample_record(2), 30e3),
          with_status(with_latency(sample_record(3), 40e3), TrialStatus::Hopeless),
          with_status(sample_record(4), TrialStatus::Wrong)};
}

TEST(Prune, ADryRunDeletesNothing) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append(mixed_records()));
  const PruneReport report = prune(store, {.keep = 0}, Pruning::DryRun).value();
  EXPECT_EQ(report.records, 5);
  EXPECT_EQ(report.pruned, 3);
  EXPECT_EQ(report.by_reason,
            (std::map<std::string, int64_t>{{"clearly slower", 2}, {"not timed", 1}}));
  EXPECT_EQ(store.query({}).value(), mixed_records());
}

TEST(Prune, TheAnswerAndWhatProvesAScheduleWrongStay) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const std::vector<Record> records = mixed_records();
  ASSERT_TRUE(store.append(records));
  EXPECT_EQ(prune(store, {.keep = 0}, Pruning::Delete).value().pruned, 3);
  EXPECT_EQ(hashes_in(store), hashes_of({records[0], records[4]}));
  EXPECT_TRUE(verify(store).value().ok());
  EXPECT_EQ(store.best(key_of(records[0])).value(), records[0]);
}

TEST(Prune, TheFastestOfAGroupStayForCostModels) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const std::vector<Record> records = mixed_records();
  ASSERT_TRUE(store.append(records));
  EXPECT_EQ(prune(store, {.keep = 3}, Pruning::Delete).value().pruned, 2);
  EXPECT_EQ(hashes_in(store), hashes_of({records[0], records[1], records[4]}));
  EXPECT_EQ(prune(store, {.keep = 64}, Pruning::Delete).value().pruned, 0);
}

TEST(Prune, RecordsOfOlderCodeGeneratorsGo) {
  const Folder folder;
  Record newer = sample_record(1);
  newer.codegen_abi = 2;
  newer = seal(newer);
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append({{sample_record(0), newer}}));
  EXPECT_EQ(prune(store, {.codegen_abi = 2}, Pruning::Delete).value().by_reason,
            (std::map<std::string, int64_t>{{"older code generation", 1}}));
  EXPECT_EQ(hashes_in(store), hashes_of({newer}));
  EXPECT_EQ(store.info().value().best, 1);
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Prune, NoAnswerChanges) {
  const Folder folder;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    std::vector<Record> records;
    for (int i = 0; i < 30; ++i) {
      Record record = sample_record(random.below(8), random.below(2));
      record.session = fmt::format("session-{}", random.below(4));
      record.host = fmt::format("host-{}", record.session.back());
      record.peak_gflops = 50.0 + 50.0 * static_cast<double>(random.below(3));
      record.trial = i;
      if (random.chance(0.1)) record.status = TrialStatus::Wrong;
      if (random.chance(0.1)) record.status = TrialStatus::Timeout;
      records.push_back(with_latency(record, 1e3 * static_cast<double>(1 + random.below(40))));
    }
    const std::string path = folder / fmt::format("{}.db", seed);
    Store store = open_store(path);
    ASSERT_TRUE(store.append(records));
    const std::vector<Record> before = best_records(store).value();
    ASSERT_TRUE(prune(store, {.slower_than = 1.1, .keep = 2}, Pruning::Delete));
    EXPECT_EQ(best_records(store).value(), before) << "seed " << seed;
    EXPECT_TRUE(verify(store).value().ok());
  }
}

// ---- groups and demands that nobody has used for long ----

constexpr int64_t long_ago_ms = 1'600'000'000'000, since_ms = 1'650'000'000'000;

class OldGroups : public OnBackends {};

Record made_long_ago(Record record) {
  record.created_ms = long_ago_ms;
  return seal(std::move(record));
}

std::vector<Record> made_long_ago(std::vector<Record> records) {
  for (Record& record : records) record = made_long_ago(std::move(record));
  return records;
}

TEST_P(OldGroups, TheAnswerAndWhatProvesAScheduleWrongStay) {
  Store store = open_store(databases / "a.db");
  const std::vector<Record> old = made_long_ago(mixed_records());
  const std::vector<Record> young = {sample_record(10, 1),
                                     with_latency(sample_record(11, 1), 25e3)};
  ASSERT_TRUE(store.append(old));
  ASSERT_TRUE(store.append(young));
  const PruneReport dry = prune(store, {.before_ms = since_ms}, Pruning::DryRun).value();
  EXPECT_EQ(dry.by_reason, (std::map<std::string, int64_t>{{"of an old group", 3}}));
  EXPECT_EQ(store.query({}).value().size(), 7u);
  EXPECT_EQ(prune(store, {.before_ms = since_ms}, Pruning::Delete).value().pruned, 3);
  EXPECT_EQ(hashes_in(store), hashes_of({old[0], old[4], young[0], young[1]}));
  EXPECT_EQ(store.best(key_of(old[0])).value(), old[0]);
  EXPECT_TRUE(verify(store).value().ok());
  EXPECT_EQ(prune(store, {.before_ms = since_ms}, Pruning::Delete).value().pruned, 0);
}

TEST_P(OldGroups, OneYoungTrialKeepsAGroup) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(store.append({{sample_record(0)}}));  // stored before older ones, as a merge may do
  ASSERT_TRUE(store.append(made_long_ago(sample_records(1, 5))));
  EXPECT_EQ(prune(store, {.before_ms = since_ms}, Pruning::DryRun).value().pruned, 0);
  EXPECT_EQ(prune(store, {.before_ms = 1'700'000'000'001}, Pruning::DryRun).value().pruned, 5);
}

TEST_P(OldGroups, OldDemandIsForgotten) {
  Store store = open_store(databases / "a.db");
  Demand demand;
  demand.source = std::string(64, 'a');
  demand.asked_ms = long_ago_ms;
  demand.kernels.emplace_back().workload = sample_record(0).workload;
  ASSERT_TRUE(keep_demand(store, demand));
  demand.source = std::string(64, 'b');
  ASSERT_TRUE(keep_demand(store, demand));
  demand.asked_ms = since_ms;  // the demand is asked for again, later
  ASSERT_TRUE(keep_demand(store, demand));
  EXPECT_EQ(prune(store, {}, Pruning::Delete).value().demands, 0);
  EXPECT_EQ(prune(store, {.before_ms = since_ms}, Pruning::DryRun).value().demands, 1);
  EXPECT_EQ(db::demands(store, {}).value().size(), 2u);
  EXPECT_EQ(prune(store, {.before_ms = since_ms}, Pruning::Delete).value().demands, 1);
  const std::vector<Demand> left = db::demands(store, {}).value();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].source, demand.source);
  EXPECT_EQ(left[0].kernels.size(), 1u);
}

TEST_P(OldGroups, NoAnswerChanges) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    std::vector<Record> records;
    for (int i = 0; i < 30; ++i) {
      Record record = sample_record(random.below(8), random.below(2));
      record.session = fmt::format("session-{}", random.below(4));
      record.host = fmt::format("host-{}", record.session.back());
      record.peak_gflops = 50.0 + 50.0 * static_cast<double>(random.below(3));
      record.trial = i;
      if (random.chance(0.1)) record.status = TrialStatus::Wrong;
      if (random.chance(0.1)) record.status = TrialStatus::Timeout;
      record.created_ms = long_ago_ms;
      records.push_back(with_latency(record, 1e3 * static_cast<double>(1 + random.below(40))));
    }
    Store store = open_store(databases / fmt::format("{}.db", seed));
    ASSERT_TRUE(store.append(records));
    const std::vector<Record> before = best_records(store).value();
    ASSERT_TRUE(prune(store, {.before_ms = since_ms}, Pruning::Delete));
    EXPECT_EQ(best_records(store).value(), before) << "seed " << seed;
    EXPECT_TRUE(verify(store).value().ok());
  }
}

TW_ON_BACKENDS(OldGroups);

TEST(Prune, ARecordThatIsNamedIsDropped) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append(sample_records(0, 2)));
  ASSERT_TRUE(drop_record(store, sample_record(0)));
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(1));
  EXPECT_TRUE(verify(store).value().ok());
}

}  // namespace
}  // namespace tw::db
