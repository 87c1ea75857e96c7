// SPDX-License-Identifier: Apache-2.0
// Tests the databases below a database: which of them gives the answer, and that none can do harm.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "db/answers.h"
#include "db/recall.h"
#include "db/store.h"
#include "db/trust.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

constexpr const char* own_device = "Test CPU; 2 cores";
constexpr const char* same_model = "Test CPU; 8 cores";
constexpr const char* other_model = "Another CPU; 2 cores";

Record measured_on(const std::string& device, int64_t number) {
  Record record = sample_record(number);
  record.device = device;
  return seal(std::move(record));
}

Key own_key() {
  Key key = key_of(sample_record(0));
  key.device = own_device;
  return key;
}

/// A store with these records of its own, above a team's and a shipped database with theirs.
class Layers : public testing::Test {
 protected:
  Store open(const std::vector<Record>& own, const std::vector<Record>& team,
             const std::vector<Record>& shipped, OpenMode mode = OpenMode::ReadWrite) {
    make_database(folder_ / "own.db", own);
    make_database(folder_ / "team.db", team);
    make_database(folder_ / "shipped.db", shipped);
    return open_store(folder_ / "own.db", mode, options());
  }
  StoreOptions options() {
    StoreOptions options;
    options.waiting.on_message = [this](std::string_view text) { said_ += text; };
    options.below = {{"team", folder_ / "team.db"}, {"shipped", folder_ / "shipped.db"}};
    return options;
  }

  const Folder folder_;
  std::string said_;
};

TEST_F(Layers, TheNearestDeviceAnswersAndAmongEqualsTheUpperLayer) {
  const Record shipped_same = measured_on(same_model, 1), team_other = measured_on(other_model, 2);
  Store store = open({}, {team_other}, {shipped_same});
  EXPECT_EQ(store.best(own_key()).value(), shipped_same);
  EXPECT_EQ(layer_of(store, shipped_same).value(), "shipped");
  const Explanation lower = explain(store, own_key()).value().value();
  EXPECT_EQ(lower.record, shipped_same);
  EXPECT_EQ(lower.layer, "shipped");
  EXPECT_EQ(lower.likeness, Likeness::SameClass);

  const Record own_same = measured_on(same_model, 9);  // slower than the shipped record
  ASSERT_TRUE(store.append({{own_same}}));
  EXPECT_EQ(store.best(own_key()).value(), own_same);
  EXPECT_EQ(layer_of(store, own_same).value(), "");
  EXPECT_EQ(explain(store, own_key()).value()->layer, "");
}

TEST_F(Layers, AnExactAnswerOfALayerComesBeforeALessExactOneAbove) {
  const Record team = measured_on(own_device, 5), shipped = measured_on(own_device, 1);
  Store store = open({measured_on(same_model, 0)}, {team}, {shipped});
  EXPECT_EQ(store.best(own_key()).value(), team);
  EXPECT_EQ(explain(store, own_key()).value()->layer, "team");
}

TEST_F(Layers, RecordsOfLayersAreNoneOfTheDatabase) {
  const Record shipped = measured_on(own_device, 1), own = measured_on(own_device, 2);
  Store store = open({own}, {}, {shipped});
  EXPECT_EQ(store.query({}).value(), std::vector{own});
  EXPECT_EQ(store.info().value().records, 1);
  std::vector<Record> below;
  for_each_below(store, {}, [&](const Record& record) {
    below.push_back(record);
    return true;
  });
  EXPECT_EQ(below, std::vector{shipped});
  ASSERT_TRUE(store.append({{measured_on(own_device, 3)}}));
  EXPECT_EQ(open_store(folder_ / "shipped.db", OpenMode::ReadOnly).info().value().records, 1);
}

TEST_F(Layers, PlacesAreThoseOfAllThatHaveAnAnswer) {
  Record wrong = measured_on(other_model, 3);
  wrong.workload = "another workload";
  wrong.status = TrialStatus::Wrong;
  wrong.latency_ns = 0;
  wrong.samples_ns.clear();
  const Record own = measured_on(own_device, 1);
  Store store = open({own, measured_on(own_device, 2), seal(wrong)}, {measured_on(own_device, 3)},
                     {measured_on(same_model, 4)});
  const std::vector<Place> expected = {{own.workload, own.target, own_device, own.layouts},
                                       {own.workload, own.target, same_model, own.layouts}};
  const auto places = [&](const std::string& op, int64_t threads) {
    return db::places(store, op, threads, own.codegen_abi, own.flops, 9).value();
  };
  EXPECT_EQ(places(own.op, own.threads), expected);
  EXPECT_TRUE(places(own.op, own.threads + 1).empty());
  EXPECT_TRUE(places("another", own.threads).empty());
}

TEST_F(Layers, Fault28_ALayerIsJudgedAsADatabaseIs) {
  Record impossible = measured_on(own_device, 0);
  impossible.bytes = 4 * impossible.latency_ns;
  impossible.peak_gb_per_s = 1;
  const Record believed = measured_on(own_device, 7);
  Store store = open({}, {}, {seal(impossible), believed});
  EXPECT_EQ(store.best(own_key()).value(), believed);
}

TEST_F(Layers, Fault19_ALayerIsReadWhereNothingCanBeWritten) {
  const Record shipped = measured_on(own_device, 1);
  { Store store = open({}, {}, {shipped}); }
  std::filesystem::permissions(folder_ / "shipped.db", std::filesystem::perms::owner_read);
  Store store = open_store(folder_ / "own.db", OpenMode::ReadWrite, options());
  EXPECT_EQ(store.best(own_key()).value(), shipped);
  EXPECT_EQ(said_, "");
}

TEST_F(Layers, Fault15_ADamagedLayerCostsAMessage) {
  const Record team = measured_on(own_device, 1);
  { Store store = open({}, {team}, {measured_on(own_device, 2)}); }
  for (const std::string& bytes : {std::string(), std::string(4096, 'x')}) {
    said_.clear();
    write_bytes(folder_ / "shipped.db", bytes);
    Store store = open_store(folder_ / "own.db", OpenMode::ReadWrite, options());
    EXPECT_EQ(store.best(own_key()).value(), team);
    EXPECT_NE(said_.find("the shipped layer is left out: ["), std::string::npos) << said_;
  }
  std::filesystem::remove(folder_ / "shipped.db");
  said_.clear();
  Store store = open_store(folder_ / "own.db", OpenMode::ReadWrite, options());
  EXPECT_EQ(store.best(own_key()).value(), team);
  EXPECT_NE(said_.find("does not exist"), std::string::npos) << said_;
}

TEST_F(Layers, Fault27_AHostileLayerIsLeftOut) {
  const Record own = measured_on(other_model, 1);
  { Store store = open({own}, {}, {measured_on(own_device, 2)}); }
  RawSql(folder_ / "shipped.db")
      .run("CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END");
  Store store = open_store(folder_ / "own.db", OpenMode::ReadWrite, options());
  EXPECT_EQ(store.best(own_key()).value(), own);
  EXPECT_NE(said_.find("the shipped layer is left out"), std::string::npos) << said_;
}

TEST_F(Layers, Fault16_ADamagedRecordOfALayerIsSkipped) {
  const Record next = measured_on(own_device, 2);
  { Store store = open({}, {}, {measured_on(own_device, 1), next}); }
  RawSql(folder_ / "shipped.db").run("UPDATE trials SET latency_low_ns = 1 WHERE seq = 1");
  Store store = open_store(folder_ / "own.db", OpenMode::ReadWrite, options());
  EXPECT_EQ(store.best(own_key()).value(), next);
}

TEST_F(Layers, Fault23_ALayerOfAnotherSchemaIsLeftOutAndNotMigrated) {
  { Store store = open({}, {}, {measured_on(own_device, 1)}); }
  for (const char* version : {"1", "99"}) {
    RawSql(folder_ / "shipped.db").run(fmt::format("PRAGMA user_version={}", version));
    const std::string before = read_bytes(folder_ / "shipped.db");
    Store store = open_store(folder_ / "own.db", OpenMode::ReadWrite, options());
    EXPECT_EQ(store.best(own_key()).value(), std::nullopt);
    EXPECT_EQ(read_bytes(folder_ / "shipped.db"), before);
  }
}

TEST_F(Layers, InPlaceOfADatabaseThatIsNotThereLayersAnswer) {
  const Record shipped = measured_on(own_device, 1);
  make_database(folder_ / "team.db", {});
  make_database(folder_ / "shipped.db", {shipped});
  Result<Store> store = Store::open_absent(folder_ / "own.db", options());
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(store->best(own_key()).value(), shipped);
  EXPECT_TRUE(store->query({}).value().empty());
  EXPECT_EQ(store->path(), folder_ / "own.db");
  EXPECT_NE(error_of(store->append({{shipped}})).find("opened for reading"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "own.db"));
}

// ---- what a layer is made of ----

std::vector<Record> distilled(const std::vector<Record>& records, int64_t keep = 1) {
  const Folder folder;
  Store store = open_store(folder / "all.db");
  EXPECT_TRUE(store.append(records));
  return distilled(store, {.codegen_abi = 1, .keep = keep}).value();
}

TEST(Distil, OfAModelTheBestSchedulesOfTheDeviceThatItUsesBestAreKept) {
  const Record best = measured_on(own_device, 0), second = measured_on(own_device, 1),
               third = measured_on(own_device, 2), larger = measured_on(same_model, 500),
               other = measured_on(other_model, 900);
  EXPECT_EQ(distilled({third, other, best, larger, second}), (std::vector{other, best}));
  EXPECT_EQ(distilled({third, other, best, larger, second}, 2), (std::vector{other, best, second}));
}

TEST(Distil, ProcessorsOfOneNameAreToldApartByTheirMicroarchitecture) {
  Record older = measured_on(own_device, 0), newer = measured_on(same_model, 500);
  older.machine = "Zen 3; table; 0123456789abcdef";
  newer.machine = "Zen 4; table; 0123456789abcdef";
  older = seal(older);
  newer = seal(newer);
  EXPECT_EQ(distilled({newer, older}).size(), 2u);
  newer.machine = older.machine;
  EXPECT_EQ(distilled({seal(newer), older}).size(), 1u);
}

TEST(Distil, ARepeatedScheduleIsKeptOnce) {
  Record again = measured_on(own_device, 0);
  again.session = "session-2";
  again = with_latency(again, 10'001);
  const Record second = measured_on(own_device, 5);
  EXPECT_EQ(distilled({measured_on(own_device, 0), again, second}, 2),
            (std::vector{again, second}));
}

TEST(Distil, DoubtfulDisturbedAndOldRecordsAreLeftOut) {
  Record wrong = measured_on(own_device, 0);
  wrong.status = TrialStatus::Wrong;
  wrong.trial = 99;
  Record disturbed = measured_on(other_model, 1);
  disturbed.status = TrialStatus::Unstable;
  Record old = measured_on(same_model, 2);
  old.codegen_abi = 0;
  const Record believed = measured_on(own_device, 3);
  EXPECT_EQ(
      distilled({measured_on(own_device, 0), seal(wrong), seal(disturbed), seal(old), believed}, 3),
      std::vector{believed});
}

TEST(Distil, WhatWasDistilledIsDistilledToItself) {
  std::vector<Record> records;
  for (int64_t workload = 0; workload < 5; ++workload)
    for (int64_t number = 0; number < 8; ++number)
      records.push_back(sample_record(number, workload));
  const std::vector<Record> once = distilled(records, 2);
  EXPECT_EQ(once.size(), 10u);
  EXPECT_EQ(distilled(once, 2), once);
  std::ranges::reverse(records);
  EXPECT_EQ(distilled(records, 2), once);
}

}  // namespace
}  // namespace tw::db
