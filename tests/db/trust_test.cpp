// SPDX-License-Identifier: Apache-2.0
#include "db/trust.h"

#include <gtest/gtest.h>

#include "db/answers.h"
#include "db/maintenance.h"
#include "db/overview.h"
#include "db/store.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

Record measured_by(const std::string& session, int64_t schedule, double latency_ns) {
  Record record = sample_record(schedule);
  record.session = session;
  record.host = "host of " + session;
  return with_latency(record, latency_ns);
}

Record on_device(Record record, const std::string& device) {
  record.device = device;
  return seal(std::move(record));
}

TEST(Trust, TheModelOfADeviceIsItsClass) {
  EXPECT_EQ(likeness_of("Zen 4; 2 cores", "Zen 4; 2 cores"), Likeness::Exact);
  EXPECT_EQ(likeness_of("Zen 4; 8 cores", "Zen 4; 2 cores"), Likeness::SameClass);
  EXPECT_EQ(likeness_of("Zen 5; 2 cores", "Zen 4; 2 cores"), Likeness::OtherClass);
  EXPECT_EQ(likeness_of("Zen 5; 2 cores", ""), Likeness::OtherClass);
}

TEST(Trust, ADeviceThatWasNeverMeasuredIsAnsweredByItsClassFirst) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const Record same = on_device(sample_record(7), "Test CPU; 8 cores");
  const Record other = on_device(sample_record(0), "Another CPU; 2 cores");  // more efficient
  Key key = key_of(same);
  key.device = "Test CPU; 2 cores";
  ASSERT_TRUE(store.append({{other}}));
  EXPECT_EQ(store.best(key).value(), other);
  EXPECT_EQ(explain(store, key).value()->likeness, Likeness::OtherClass);
  ASSERT_TRUE(store.append({{same}}));
  EXPECT_EQ(store.best(key).value(), same);
  EXPECT_EQ(explain(store, key).value()->likeness, Likeness::SameClass);
  const Record exact = on_device(sample_record(9), "Test CPU; 2 cores");
  ASSERT_TRUE(store.append({{exact}}));
  EXPECT_EQ(store.best(key).value(), exact);
  EXPECT_EQ(explain(store, key).value()->likeness, Likeness::Exact);
}

TEST(Trust, AnAnswerSaysWhatItRestsOn) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const std::vector<Record> records = {measured_by("a", 0, 10e3), measured_by("b", 0, 10.4e3),
                                       measured_by("c", 0, 10.2e3), measured_by("c", 1, 12e3)};
  ASSERT_TRUE(store.append(records));
  const Explanation e = explain(store, key_of(records[0])).value().value();
  EXPECT_EQ(e.record, records[2]);
  EXPECT_EQ(e.sessions, 3);
  EXPECT_EQ(e.hosts, 3);
  EXPECT_EQ(e.trials, 3);
  EXPECT_EQ(e.latency_ns, 10.2e3);
  EXPECT_EQ(e.low_ns, 10e3);
  EXPECT_EQ(e.high_ns, 10.4e3);
  ASSERT_EQ(e.not_used.size(), 1u);
  EXPECT_EQ(e.not_used[0].record, records[0]);
  EXPECT_EQ(e.not_used[0].why, "the median of its schedule is 10.2 µs, of 3 sessions");
}

// While it measured the answer, the machine ran at 0.9 of its usual clock. The explanation has the
// latency of that moment, and scales the other latencies to this clock.
TEST(Trust, WhatAnAnswerRestsOnIsOnItsClock) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  Record slow = measured_by("b", 0, 11e3);
  slow.peak_gflops = 0.9 * measured_by("a", 0, 10e3).peak_gflops;
  slow = seal(std::move(slow));
  const Record first = measured_by("a", 0, 9.8e3);
  ASSERT_TRUE(store.append({{first, slow, measured_by("c", 0, 10.4e3)}}));
  const Explanation e = explain(store, key_of(first)).value().value();
  EXPECT_EQ(e.record, slow);
  EXPECT_EQ(e.latency_ns, 11e3);
  EXPECT_DOUBLE_EQ(e.low_ns, 9.8e3 / 0.9);
  EXPECT_DOUBLE_EQ(e.high_ns, 10.4e3 / 0.9);
  const std::vector<GroupSummary> groups = db::groups(store, 10).value();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].latency_ns, 11e3);
}

TEST(Trust, TheRankingOfRecordsIsThatOfTheStore) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  Record wrong = measured_by("a", 2, 5e3);
  wrong.status = TrialStatus::Wrong;
  const std::vector<Record> records = {measured_by("a", 0, 9e3),    measured_by("b", 0, 10.4e3),
                                       measured_by("c", 0, 10.2e3), measured_by("c", 1, 10.3e3),
                                       measured_by("b", 2, 4e3),    seal(wrong)};
  ASSERT_TRUE(store.append(records));
  const Ranking ranking = rank_records(records);
  ASSERT_TRUE(ranking.best);
  EXPECT_EQ(records[*ranking.best], store.best(key_of(records[0])).value().value());
  EXPECT_EQ(ranking.counted_ns, (std::vector<double>{10.2e3, 10.2e3, 10.2e3, 10.3e3, 0, 0}));
  EXPECT_EQ(ranking.judgements[4].doubt, Doubt::Refuted);
  const std::vector<TrialSummary> trials =
      db::trials(store, records[0].workload_hash, "", 100).value();
  ASSERT_EQ(trials.size(), records.size());
  for (size_t i = 0; i < trials.size(); ++i)
    EXPECT_EQ(trials[i].counted_ns, ranking.counted_ns[i]) << i;
  EXPECT_FALSE(rank_records({}).best);
}

TEST(Trust, OneSessionHasTheIntervalOfItsRecord) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append(sample_records(0, 1)));
  const Explanation e = explain(store, key_of(sample_record(0))).value().value();
  EXPECT_EQ(e.sessions, 1);
  EXPECT_EQ(e.low_ns, sample_record(0).latency_low_ns);
  EXPECT_EQ(e.high_ns, sample_record(0).latency_high_ns);
  EXPECT_TRUE(e.not_used.empty());
}

TEST(Trust, NoRecordNoExplanation) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  EXPECT_EQ(explain(store, key_of(sample_record(0))).value(), std::nullopt);
}

TEST(Trust, Fault29_EveryBetterLookingRecordHasAReason) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  Record fast_machine = measured_by("d", 5, 9.9e3);
  fast_machine.peak_gflops = 120;
  Record wrong = measured_by("a", 6, 5e3);
  wrong.status = TrialStatus::Wrong;
  wrong.reason = "1 of 4096 elements differs";
  const Record unconfirmed = measured_by("c", 3, 4e3);
  ASSERT_TRUE(store.append({{measured_by("a", 0, 10e3), measured_by("b", 1, 11e3), unconfirmed,
                             seal(fast_machine), seal(wrong)}}));
  const Explanation e = explain(store, key_of(wrong)).value().value();
  EXPECT_EQ(e.record.latency_ns, 10e3);
  ASSERT_EQ(e.not_used.size(), 3u);
  EXPECT_EQ(e.not_used[0].doubt, Doubt::Unconfirmed);
  EXPECT_NE(e.not_used[0].why.find("it has to be confirmed"), std::string::npos);
  EXPECT_EQ(e.not_used[1].why, "its status is wrong: 1 of 4096 elements differs");
  EXPECT_NE(e.not_used[2].why.find("its machine was faster then"), std::string::npos);

  const std::vector<Doubted> doubted = db::doubted(store, 0).value();
  ASSERT_EQ(doubted.size(), 1u);
  EXPECT_EQ(doubted[0].record, unconfirmed);
  ASSERT_TRUE(store.append({{measured_by("e", 3, 4.1e3)}}));
  EXPECT_TRUE(db::doubted(store, 0).value().empty());
  EXPECT_EQ(store.best(key_of(wrong)).value(), measured_by("e", 3, 4.1e3));
}

TEST(Trust, Fault87_AnAnswerSaysWhoSpeaksAgainstIt) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const auto crashed = [](const std::string& session) {
    Record record = measured_by(session, 0, 9e3);
    record.status = TrialStatus::Crash;
    record.reason = "SIGSEGV";
    return seal(std::move(record));
  };
  const Record best = measured_by("a", 0, 9e3), next = measured_by("a", 1, 11e3);
  ASSERT_TRUE(store.append({{best, measured_by("a", 0, 8.9e3), next, crashed("b")}}));
  const Explanation e = explain(store, key_of(best)).value().value();
  EXPECT_EQ(e.record, best);
  ASSERT_EQ(e.against.size(), 1u);
  EXPECT_EQ(e.against[0].record, crashed("b"));
  EXPECT_EQ(e.against[0].doubt, Doubt::Contradicted);
  EXPECT_EQ(db::doubted(store, 0).value().size(), 1u);
  EXPECT_TRUE(verify(store).value().ok());
  EXPECT_EQ(prune(store, {.slower_than = 1, .keep = 0}, Pruning::DryRun).value().pruned, 1)
      << "neither the answer nor what speaks against it";
  ASSERT_TRUE(store.append({{crashed("c")}}));
  EXPECT_EQ(store.best(key_of(best)).value(), next);
  EXPECT_TRUE(explain(store, key_of(best)).value()->against.empty());
}

TEST(Trust, AGroupWhereNothingElseIsBelievedHasNoAnswer) {
  const Folder folder;
  Record impossible = sample_record(0);
  impossible.bytes = 4 * impossible.latency_ns;
  impossible.peak_gb_per_s = 1;
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append({{seal(impossible)}}));
  EXPECT_EQ(store.best(key_of(impossible)).value(), std::nullopt);
  const std::vector<Doubted> doubted = db::doubted(store, 0).value();
  ASSERT_EQ(doubted.size(), 1u);
  EXPECT_EQ(doubted[0].why, "it claims 4 times the bandwidth of the machine");
}

}  // namespace
}  // namespace tw::db
