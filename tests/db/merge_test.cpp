// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "base/random.h"
#include "db/answers.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "db/transfer.h"
#include "tests/db/backends.h"
#include "tests/db/samples.h"
#include "tests/nightly.h"

namespace tw::db {
namespace {

class AnyMerge : public OnBackends {};
TW_ON_BACKENDS(AnyMerge);

// Returns a trial that competes with others: there are few workloads and schedules, equal
// latencies, and differing peaks and outcomes.
Record conflicting_record(Random& random) {
  Record record = sample_record(random.below(6), random.below(2));
  record.session = fmt::format("session-{}", random.below(3));
  record.peak_gflops = 50.0 + 50.0 * static_cast<double>(random.below(4));
  if (random.chance(0.1)) record.status = TrialStatus::Wrong;
  if (random.chance(0.1)) record.latency_ns = 0;  // an impossible latency
  if (random.chance(0.2)) record.device = "Another CPU";
  if (random.chance(0.2)) record.layouts = "in=NCHW16c out=NHWC";
  return seal(record);
}

struct State {
  std::set<std::string> hashes;
  std::vector<std::string> best;
  bool operator==(const State&) const = default;
};

State state_of(Store& store) {
  State state{hashes_in(store), {}};
  for (const int64_t workload : {0, 1})
    for (const char* device : {"Test CPU / 2 cores / 1 MiB", "Another CPU", ""})
      for (const char* layouts : {"", "in=NCHW16c out=NHWC"}) {
        Key key = key_of(sample_record(0, workload));
        key.device = device;
        key.layouts = layouts;
        const auto best = store.best(key).value();
        state.best.push_back(best ? best->hash : "none");
      }
  EXPECT_TRUE(verify(store).value().ok());
  return state;
}

TEST(Merge, Fault30_EveryOrderGivesTheSameDatabase) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Folder folder;
    Random random(seed);
    std::vector<std::string> parts;
    std::vector<Record> all;
    for (int part = 0; part < 3; ++part) {
      std::vector<Record> records;
      for (int i = 0; i < 12; ++i) records.push_back(conflicting_record(random));
      parts.push_back(folder / fmt::format("part{}.db", part));
      make_database(parts.back(), records);
      all.insert(all.end(), records.begin(), records.end());
    }
    Store whole = open_store(folder / "whole.db");
    ASSERT_TRUE(whole.append(all));
    const State expected = state_of(whole);
    ASSERT_GT(expected.hashes.size(), 10u);
    std::sort(parts.begin(), parts.end());
    do {
      const std::string path = folder / "merged.db";
      {
        Store merged = open_store(path);
        for (const std::string& part : parts) ASSERT_TRUE(merge_from(merged, part));
        ASSERT_TRUE(merge_from(merged, parts.front()));  // a second merge changes nothing
        EXPECT_EQ(state_of(merged), expected) << "seed " << seed;
      }
      std::filesystem::remove(path);
    } while (std::next_permutation(parts.begin(), parts.end()));
  }
}

/// Returns everything that a user sees of a database: the export, the answers with the numbers that
/// explain them, and the records in doubt.
std::string text_of(Store& store) {
  std::ostringstream text;
  EXPECT_TRUE(export_jsonl(store, text));
  const std::vector<Record> answers = best_records(store).value();
  const std::vector<Doubted> in_doubt = doubted(store, 0).value();
  for (const Record& best : answers) {
    const Explanation e = explain(store, key_of(best)).value().value();
    text << fmt::format("{} {} {} {} {} {} {}\n", e.record.hash, e.sessions, e.hosts, e.trials,
                        e.latency_ns, e.low_ns, e.high_ns);
    for (const Doubted& other : e.not_used) text << other.record.hash << other.why << '\n';
  }
  for (const Doubted& doubted : in_doubt) text << doubted.record.hash << doubted.why << '\n';
  return text.str();
}

const int orders = cases_of(10, 100);

TEST(Merge, Fault30_EveryOrderOfTenDatabasesGivesTheSameBytes) {
  const Folder folder;
  Random random(7);
  std::vector<std::string> parts;
  for (int part = 0; part < 10; ++part) {
    std::vector<Record> records;
    for (int i = 0; i < 6; ++i) {
      Record record = conflicting_record(random);
      record.session = fmt::format("session-{}", part);
      record.host = fmt::format("host-{}", part / 2);
      record.created_ms = 1'700'000'000'000;
      if (part == 3 && record.latency_ns > 0)  // this machine has a wrong clock
        record = with_latency(record, record.latency_ns / 3);
      records.push_back(seal(record));
    }
    parts.push_back(folder / fmt::format("part{}.db", part));
    make_database(parts.back(), records);
  }
  std::string expected;
  for (int order = 0; order < orders; ++order) {
    random.shuffle(parts);
    const std::string path = folder / "merged.db";
    {
      Store merged = open_store(path);
      for (const std::string& part : parts) ASSERT_TRUE(merge_from(merged, part));
      if (expected.empty()) expected = text_of(merged);
      ASSERT_EQ(text_of(merged), expected) << "order " << order;
    }
    std::filesystem::remove(path);
  }
  EXPECT_NE(expected.find("faster"), std::string::npos) << "no record was doubted";
}

TEST(Merge, WithItselfIsNothing) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append(sample_records(0, 3)));
  EXPECT_EQ(merge_from(store, folder / "./a.db").value(), AppendSummary{});
}

TEST_P(AnyMerge, Fault16_DamagedRecordsAreLeftOutAndCounted) {
  make_database(databases / "a.db", sample_records(0, 100));
  run_in(databases / "a.db",
         "UPDATE trials SET latency_ns = latency_ns + 1 WHERE seq < (SELECT min(seq) + 3 FROM "
         "trials)");
  AppendSummary expected{97, 0, 0};
  expected.damaged = 3;
  Store by_path = open_store(databases / "b.db"), by_store = open_store(databases / "c.db");
  EXPECT_EQ(merge_from(by_path, databases / "a.db").value(), expected);
  Store other = open_store(databases / "a.db", OpenMode::ReadOnly);
  EXPECT_EQ(merge_from(by_store, other).value(), expected);
  EXPECT_EQ(hashes_in(by_store), hashes_of(sample_records(3, 97)));
}

TEST_P(AnyMerge, TheDerivedTableIsNeverImported) {
  make_database(databases / "a.db", {sample_record(0), sample_record(5)});
  make_database(databases / "b.db", {sample_record(9)});
  Store store = open_store(databases / "b.db");
  EXPECT_EQ(merge_from(store, databases / "a.db").value(), (AppendSummary{2, 0, 0}));
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(0));
}

TEST_P(AnyMerge, ManyBatches) {
  make_database(databases / "a.db", sample_records(0, 1500));
  Store store = open_store(databases / "b.db");
  EXPECT_EQ(merge_from(store, databases / "a.db").value(), (AppendSummary{1500, 0, 0}));
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(0));
}

TEST(Merge, AForeignFileIsAnError) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  write_bytes(folder / "text", "hello, world, this is no database at all");
  EXPECT_EQ(merge_from(store, folder / "text").error().code, ErrorCode::Database);
  EXPECT_EQ(merge_from(store, folder / "absent").error().code, ErrorCode::Database);
}

}  // namespace
}  // namespace tw::db
