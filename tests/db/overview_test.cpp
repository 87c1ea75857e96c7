// SPDX-License-Identifier: Apache-2.0
#include "db/overview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/text.h"
#include "db/tables/rows.h"
#include "tests/db/backends.h"
#include "tests/db/fake_time.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

class Overview : public OnBackends {};

Record made_on(Record record, const std::string& device) {
  record.device = device;
  return seal(std::move(record));
}

TEST_P(Overview, AGroupIsOneRowWithItsAnswer) {
  Store store = open_store(databases / "a");
  const std::vector<Record> records = {with_latency(sample_record(1), 20e3), sample_record(2),
                                       made_on(sample_record(3), "Other CPU; 4 cores"),
                                       with_layouts(sample_record(4, 9), "in=NCHW16c")};
  for (const Record& record : records) ASSERT_TRUE(store.append({{record}}));
  const std::vector<GroupSummary> groups = db::groups(store, 10).value();
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].layouts, "in=NCHW16c");  // the group that was stored last
  EXPECT_EQ(groups[1].device, "Other CPU; 4 cores");
  const GroupSummary& first = groups[2];
  EXPECT_EQ(first.workload, records[0].workload);
  EXPECT_EQ(first.workload_hash, sha256_hex(records[0].workload));
  EXPECT_EQ(first.op, "matmul");
  EXPECT_EQ(first.target, records[0].target);
  EXPECT_EQ(first.threads, 1);
  EXPECT_EQ(first.codegen_abi, 1);
  EXPECT_EQ(first.trials, 2);
  EXPECT_EQ(first.newest_ms, records[1].created_ms);
  EXPECT_EQ(first.best, records[1].hash);
  EXPECT_EQ(first.latency_ns, records[1].latency_ns);
  EXPECT_DOUBLE_EQ(first.efficiency, efficiency(records[1]));
  EXPECT_EQ(db::groups(store, 1).value().size(), 1u);
}

TEST_P(Overview, AGroupWithoutAnAnswerIsListedToo) {
  Store store = open_store(databases / "a");
  Record wrong = sample_record(1);
  wrong.status = TrialStatus::Wrong;
  wrong.latency_ns = wrong.latency_low_ns = wrong.latency_high_ns = 0;
  wrong.samples_ns.clear();
  ASSERT_TRUE(store.append({{seal(wrong)}}));
  const std::vector<GroupSummary> groups = db::groups(store, 10).value();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].trials, 1);
  EXPECT_EQ(groups[0].best, "");
  EXPECT_EQ(groups[0].latency_ns, 0);
}

std::vector<std::string> workloads_of(Store& store, const std::vector<int64_t>& ids) {
  std::vector<std::string> names;
  for (const int64_t id : ids) {
    const std::vector<GroupSummary> groups = workload_groups(store, id, 1).value();
    names.push_back(groups.empty() ? "" : groups[0].workload + groups[0].layouts);
  }
  return names;
}

TEST_P(Overview, EntriesSayWhatSummariesSay) {
  Store store = open_store(databases / "a");
  std::vector<Record> records;
  for (int64_t i = 0; i < 20; ++i) records.push_back(sample_record(i, i % 7));
  records.push_back(with_layouts(sample_record(30, 2), "in=NCHW16c"));
  records.push_back(made_on(sample_record(31, 3), "Other CPU; 4 cores"));
  ASSERT_TRUE(store.append(records));
  const std::vector<GroupSummary> groups = db::groups(store, 100).value();
  ASSERT_EQ(groups.size(), 9u);
  for (const bool with_answers : {false, true}) {
    size_t next = 0;
    ASSERT_TRUE(for_each_group(store, 100, with_answers, [&](const GroupEntry& entry) {
      const GroupSummary& group = groups[next++];
      EXPECT_EQ(entry.workload_hash, bytes_of_hex(group.workload_hash));
      EXPECT_EQ(entry.op, group.op);
      EXPECT_EQ(entry.device, group.device);
      EXPECT_EQ(entry.layouts, group.layouts);
      EXPECT_EQ(entry.trials, group.trials);
      EXPECT_EQ(entry.newest_ms, group.newest_ms);
      EXPECT_EQ(entry.latency_ns, with_answers ? group.latency_ns : 0);
      EXPECT_EQ(entry.efficiency, with_answers ? group.efficiency : 0);
      EXPECT_EQ(workload_groups(store, entry.id, 9).value()[0].workload, group.workload);
    }));
    EXPECT_EQ(next, groups.size());
  }
  int64_t visited = 0;
  ASSERT_TRUE(for_each_group(store, 4, false, [&](const GroupEntry&) { ++visited; }));
  EXPECT_EQ(visited, 4);
}

TEST_P(Overview, GroupsOfOneWorkload) {
  Store store = open_store(databases / "a");
  ASSERT_TRUE(store.append({{sample_record(1), made_on(sample_record(2), "Other CPU; 4 cores"),
                             with_layouts(sample_record(3), "in=NCHW16c"), sample_record(4, 1)}}));
  const std::string hash = sha256_hex(sample_record(1).workload);
  const std::vector<GroupSummary> groups = workload_groups(store, hash, "", 9).value();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].device, "Other CPU; 4 cores");  // the group that was stored last
  EXPECT_EQ(workload_groups(store, hash, "", 1).value().size(), 1u);
  EXPECT_EQ(workload_groups(store, hash, "in=NCHW16c", 9).value().size(), 1u);
  EXPECT_TRUE(workload_groups(store, hash, "\xff", 9).value().empty());
  EXPECT_TRUE(workload_groups(store, "no hash", "", 9).value().empty());
  EXPECT_TRUE(workload_groups(store, int64_t{99}, 9).value().empty());
}

TEST_P(Overview, GroupsAreFoundAndSortedByName) {
  Store store = open_store(databases / "a");
  std::vector<Record> records;
  for (const char* workload : {"b %_ 1", "A b", "a c"}) {
    records.push_back(sample_record(std::ssize(records)));
    records.back().workload = workload;
    records.back() = seal(records.back());
  }
  records.push_back(with_layouts(records[2], "in=NHWC"));
  ASSERT_TRUE(store.append(records));
  const auto named = [&](const std::string& part) {
    return workloads_of(store, groups_named(store, part).value());
  };
  EXPECT_THAT(named("A"), testing::UnorderedElementsAre("A b", "a c", "a cin=NHWC"));
  EXPECT_THAT(named("%_"), testing::ElementsAre("b %_ 1"));
  EXPECT_THAT(named("C {IN=nhwc}"), testing::ElementsAre("a cin=NHWC"));
  EXPECT_THAT(named("' OR 1=1"), testing::IsEmpty());
  EXPECT_THAT(named(std::string("a\0", 2)), testing::IsEmpty());
  EXPECT_THAT(named("\xff"), testing::IsEmpty());
  EXPECT_THAT(workloads_of(store, groups_by_name(store).value()),
              testing::ElementsAre("A b", "a c", "a cin=NHWC", "b %_ 1"));
}

TEST_P(Overview, TrialsOfAWorkloadAsTheyWereStored) {
  Store store = open_store(databases / "a");
  ASSERT_TRUE(store.append(sample_records(0, 5)));
  ASSERT_TRUE(store.append({{with_layouts(sample_record(7), "in=NCHW16c")}}));
  ASSERT_TRUE(store.append({{sample_record(8, 1)}}));
  const std::string hash = sha256_hex(sample_record(0).workload);
  const std::vector<TrialSummary> trials = db::trials(store, hash, "", 3).value();
  ASSERT_EQ(trials.size(), 3u);
  EXPECT_EQ(trials[0].hash, sample_record(2).hash);
  EXPECT_EQ(trials[2].hash, sample_record(4).hash);
  EXPECT_EQ(trials[2].status, TrialStatus::Ok);
  EXPECT_EQ(trials[2].latency_ns, sample_record(4).latency_ns);
  EXPECT_EQ(trials[2].created_ms, sample_record(4).created_ms);
  EXPECT_EQ(trials[2].session, "session-1");
  EXPECT_EQ(db::trials(store, hash, "in=NCHW16c", 9).value().size(), 1u);
  EXPECT_TRUE(db::trials(store, "no hash", "", 9).value().empty());
}

TEST_P(Overview, ATrialIsJudgedByItsWholeGroup) {
  Store store = open_store(databases / "a");
  ASSERT_TRUE(store.append(sample_records(0, 2)));
  Record refuted = sample_record(5);
  refuted.status = TrialStatus::Wrong;
  refuted.schedule = sample_record(1).schedule;
  ASSERT_TRUE(store.append({{seal(refuted)}}));
  const std::string hash = sha256_hex(sample_record(0).workload);
  const std::vector<TrialSummary> trials = db::trials(store, hash, "", 9).value();
  ASSERT_EQ(trials.size(), 3u);
  EXPECT_EQ(trials[0].doubt, Doubt::None);
  EXPECT_EQ(trials[1].doubt, Doubt::Refuted);
  const std::vector<TrialSummary> last = db::trials(store, hash, "", 2).value();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].doubt, Doubt::Refuted);
}

TEST_P(Overview, ARecordIsFoundByItsHash) {
  Store store = open_store(databases / "a");
  ASSERT_TRUE(store.append(sample_records(0, 3)));
  EXPECT_EQ(store.find(sample_record(1).hash).value(), sample_record(1));
  EXPECT_EQ(store.find(sample_record(9).hash).value(), std::nullopt);
  EXPECT_EQ(store.find(sample_record(1).hash.substr(0, 16)).value(), std::nullopt);
  EXPECT_EQ(store.find("' OR 1=1").value(), std::nullopt);
}

TEST_P(Overview, ReadingEndsAtItsLimit) {
  const std::string path = databases / "a";
  open_store(path);
  FakeTime time;
  Store store = open_store(path, OpenMode::ReadOnly,
                           {.waiting = time.waiting(1000), .read_limit_ms = 60'000});
  EXPECT_TRUE(db::groups(store, 1));
  time.now_ms = 60'000;
  EXPECT_EQ(db::groups(store, 1).error().code, ErrorCode::TryLater);
  EXPECT_EQ(store.find(sample_record(1).hash).error().code, ErrorCode::TryLater);
}

TW_ON_BACKENDS(Overview);

TEST(OverviewOfAFile, Fault17_ALongStatementEndsAtTheLimit) {
  const Folder folder;
  std::vector<Record> records;
  for (int64_t i = 0; i < 2000; ++i) records.push_back(sample_record(i, i));
  make_database(folder / "a.db", records);
  int64_t ticks = 0;
  const Waiting waiting = {.now_ms = [&] { return ++ticks; }};
  Store store =
      open_store(folder / "a.db", OpenMode::ReadOnly, {.waiting = waiting, .read_limit_ms = 1000});
  EXPECT_EQ(db::groups(store, 2000).value().size(), 2000u);
  ticks = 998;  // the statement reads the clock as it begins, and next in its middle
  const auto late = db::groups(store, 2000);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::TryLater);
  EXPECT_THAT(late.error().message, testing::HasSubstr("takes too long"));
}

}  // namespace
}  // namespace tw::db
