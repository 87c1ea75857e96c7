// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/random.h"
#include "db/store.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

Record with_status(Record record, TrialStatus status) {
  record.status = status;
  return seal(std::move(record));
}

/// One fast record, two slow ones, a pruned and a wrong one.
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
  const PruneReport report = store.prune({.keep = 0}, Pruning::DryRun).value();
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
  EXPECT_EQ(store.prune({.keep = 0}, Pruning::Delete).value().pruned, 3);
  EXPECT_EQ(hashes_in(store), hashes_of({records[0], records[4]}));
  EXPECT_TRUE(store.verify().value().ok());
  EXPECT_EQ(store.best(key_of(records[0])).value(), records[0]);
}

TEST(Prune, TheFastestOfAGroupStayForCostModels) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const std::vector<Record> records = mixed_records();
  ASSERT_TRUE(store.append(records));
  EXPECT_EQ(store.prune({.keep = 3}, Pruning::Delete).value().pruned, 2);
  EXPECT_EQ(hashes_in(store), hashes_of({records[0], records[1], records[4]}));
  EXPECT_EQ(store.prune({.keep = 64}, Pruning::Delete).value().pruned, 0);
}

TEST(Prune, RecordsOfOlderCodeGeneratorsGo) {
  const Folder folder;
  Record newer = sample_record(1);
  newer.codegen_abi = 2;
  newer = seal(newer);
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append({{sample_record(0), newer}}));
  EXPECT_EQ(store.prune({.codegen_abi = 2}, Pruning::Delete).value().by_reason,
            (std::map<std::string, int64_t>{{"older code generation", 1}}));
  EXPECT_EQ(hashes_in(store), hashes_of({newer}));
  EXPECT_EQ(store.info().value().best, 1);
  EXPECT_TRUE(store.verify().value().ok());
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
    const std::vector<Record> before = store.best_records().value();
    ASSERT_TRUE(store.prune({.slower_than = 1.1, .keep = 2}, Pruning::Delete));
    EXPECT_EQ(store.best_records().value(), before) << "seed " << seed;
    EXPECT_TRUE(store.verify().value().ok());
  }
}

TEST(Prune, ARecordThatIsNamedIsDropped) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append(sample_records(0, 2)));
  ASSERT_TRUE(store.drop_record(sample_record(0)));
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(1));
  EXPECT_TRUE(store.verify().value().ok());
}

}  // namespace
}  // namespace tw::db
