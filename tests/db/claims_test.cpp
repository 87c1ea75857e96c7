// SPDX-License-Identifier: Apache-2.0
#include "db/claims.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>

#include "db/maintenance.h"
#include "db/recall.h"
#include "tests/db/backends.h"

namespace tw::db {
namespace {

using Grants = std::vector<bool>;

/// A fixture for runs (sessions) of one workload that share a database.
class Claims : public OnBackends {
 protected:
  Grants claim(const std::string& session, const std::vector<Record>& records) {
    std::vector<std::string> schedules;
    for (const Record& record : records) schedules.push_back(schedule_key(record.schedule));
    return db::claim(store, key_of(records.front()), schedules, session, "host of " + session)
        .value();
  }
  /// Makes all claims as old as if this time had passed.
  void pass(double seconds) {
    run_in(databases / "a.db",
           fmt::format("UPDATE claims SET expires_ms = expires_ms - {}", int64_t(seconds * 1e3)));
  }

  Store store = open_store(databases / "a.db");
};

TEST_P(Claims, AreOfOneSession) {
  EXPECT_EQ(claim("a", sample_records(0, 2)), (Grants{true, true}));
  EXPECT_EQ(claim("b", sample_records(1, 2)), (Grants{false, true}));
  EXPECT_EQ(claim("a", sample_records(0, 3)), (Grants{true, true, false}));
}

TEST_P(Claims, AreOfOnePlace) {
  EXPECT_EQ(claim("a", {sample_record(0, 0)}), Grants{true});
  EXPECT_EQ(claim("b", {sample_record(0, 1)}), Grants{true});
}

TEST_P(Claims, EndWithTheirSession) {
  EXPECT_EQ(claim("a", sample_records(0, 2)), (Grants{true, true}));
  ASSERT_TRUE(release(store, key_of(sample_record(0)), "a"));
  EXPECT_EQ(claim("b", sample_records(0, 2)), (Grants{true, true}));
}

TEST_P(Claims, Fault100_ExpireWhenTheirSessionIsSilent) {
  EXPECT_EQ(claim("a", {sample_record(0)}), Grants{true});
  pass(claim_s / 2);
  EXPECT_EQ(claim("b", {sample_record(0)}), Grants{false});
  pass(claim_s / 2 + 1);
  EXPECT_EQ(claim("b", {sample_record(0)}), Grants{true});
}

TEST_P(Claims, LastAsLongAsTheirSessionClaimsOthers) {
  EXPECT_EQ(claim("a", {sample_record(0)}), Grants{true});
  pass(claim_s - 10);
  EXPECT_EQ(claim("a", {sample_record(1)}), Grants{true});
  pass(claim_s - 10);
  EXPECT_EQ(claim("b", {sample_record(0)}), Grants{false});
}

TEST_P(Claims, AreRefusedForWhatOthersHaveMeasured) {
  Record lost = sample_record(1), other = sample_record(0);
  lost.status = TrialStatus::Lost;
  ASSERT_TRUE(store.append({{seal(other), seal(lost)}}));
  EXPECT_EQ(claim("session-2", sample_records(0, 3)), (Grants{false, true, true}))
      << "a lost trial proves nothing";
  EXPECT_EQ(claim("session-1", {sample_record(0)}), Grants{true}) << "it may repeat its own";
}

TEST_P(Claims, OneHostAloneBansNoSchedule) {
  Record wrong = sample_record(0);
  wrong.status = TrialStatus::Wrong;
  ASSERT_TRUE(store.append({{seal(wrong)}}));
  EXPECT_EQ(claim("b", {sample_record(0)}), Grants{true});
  ASSERT_TRUE(release(store, key_of(wrong), "b"));
  wrong.session = "session-2";
  ASSERT_TRUE(store.append({{seal(wrong)}}));
  EXPECT_EQ(claim("b", {sample_record(0)}), Grants{false});
}

TEST_P(Claims, AreSeenByOthersUntilTheyEnd) {
  const Key place = key_of(sample_record(0));
  const std::string schedule = schedule_key(sample_record(0).schedule);
  EXPECT_FALSE(is_claimed(store, place, schedule, "b").value());
  EXPECT_EQ(claim("a", {sample_record(0)}), Grants{true});
  EXPECT_TRUE(is_claimed(store, place, schedule, "b").value());
  EXPECT_FALSE(is_claimed(store, place, schedule, "a").value());
  pass(claim_s + 1);
  EXPECT_FALSE(is_claimed(store, place, schedule, "b").value());
}

TEST_P(Claims, NewsAreOfOthersAndAfterTheLast) {
  Record own = sample_record(2);
  own.session = "session-2";
  own = seal(own);
  ASSERT_TRUE(store.append({{sample_record(0), sample_record(1), own}}));
  const Key place = key_of(own);
  const News first = news(store, place, 0, "session-2").value();
  EXPECT_EQ(first.records, (std::vector{sample_record(0), sample_record(1)}));
  EXPECT_TRUE(news(store, place, first.last, "session-2").value().records.empty());
  ASSERT_TRUE(store.append({{sample_record(3), sample_record(9, 1)}}));
  const News later = news(store, place, first.last, "session-2").value();
  EXPECT_EQ(later.records, std::vector{sample_record(3)});
}

/// Functions that delete records: the one that was stored last (sample_record(1)), or all.
using DeleteLast = void (*)(Store& store);
const DeleteLast deletions[] = {
    [](Store& store) { ASSERT_TRUE(drop_record(store, sample_record(1))); },
    [](Store& store) {
      ASSERT_EQ(prune(store, {.slower_than = 1, .keep = 0}, Pruning::Delete).value().pruned, 1);
    },
    [](Store& store) {
      ASSERT_EQ(prune(store, {.codegen_abi = 2}, Pruning::Delete).value().pruned, 2);
    }};

TEST_P(Claims, NewsAreCompleteAfterRecordsWereDeleted) {
  const Key place = key_of(sample_record(0));
  for (size_t i = 0; i < std::size(deletions); ++i) {
    Store shared = open_store(databases / fmt::format("{}.db", i));
    ASSERT_TRUE(shared.append(sample_records(0, 2)));
    const int64_t last = last_row(shared).value();
    deletions[i](shared);
    ASSERT_TRUE(shared.append({{sample_record(3)}}));
    ASSERT_TRUE(shared.append({{sample_record(4)}}));
    EXPECT_EQ(news(shared, place, last, "session-2").value().records, sample_records(3, 2)) << i;
    EXPECT_TRUE(verify(shared).value().ok()) << i;
  }
}

TEST_P(Claims, NewsAreCompleteAfterSeveralDeletions) {
  const Key place = key_of(sample_record(0));
  ASSERT_TRUE(store.append(sample_records(0, 2)));
  for (int64_t number = 2; number < 6; ++number) {
    const int64_t last = last_row(store).value();
    for (const int64_t before : {number - 2, number - 1})
      ASSERT_TRUE(drop_record(store, sample_record(before)));
    ASSERT_TRUE(store.append({{sample_record(number)}}));
    EXPECT_EQ(news(store, place, last, "session-2").value().records,
              std::vector{sample_record(number)});
  }
}

TEST_P(Claims, OnlyRunsThatShareAServerTellEachOther) {
  EXPECT_EQ(store.is_shared(), GetParam() == Backend::Server);
  Store reader = open_store(databases / "a.db", OpenMode::ReadOnly);
  EXPECT_FALSE(reader.is_shared());
}

TW_ON_BACKENDS(Claims);

}  // namespace
}  // namespace tw::db
