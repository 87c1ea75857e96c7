// SPDX-License-Identifier: Apache-2.0
#include "db/store.h"

#include <gtest/gtest.h>

#include "db/answers.h"
#include "db/maintenance.h"
#include "db/tables/schema.h"
#include "tests/db/backends.h"
#include "tests/db/fake_time.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

class AnyStore : public OnBackends {};
TW_ON_BACKENDS(AnyStore);

TEST_P(AnyStore, RoundTripsEveryField) {
  Record odd = sample_record(1);
  odd.status = TrialStatus::Crash;
  odd.reason = "signal 11\n'quoted'; -- \xc3\xbc";
  odd.samples_ns.clear();
  odd.layouts = "NCHW16c -> NCHW16c";
  odd.seed = -1;
  odd.noise = -0.0;
  const std::vector<Record> records = {sample_record(0), seal(odd)};
  Store store =
      open_store(databases / "new/deep/team.db", OpenMode::ReadWrite, {.create_directories = true});
  const auto summary = store.append(records);
  ASSERT_TRUE(summary) << error_of(summary);
  EXPECT_EQ(*summary, (AppendSummary{2, 0, 0}));
  EXPECT_EQ(store.query({}).value(), records);
  Store again = open_store(databases / "new/deep/team.db", OpenMode::ReadOnly);
  EXPECT_EQ(again.query({}).value(), records);
}

TEST_P(AnyStore, TheSameRecordIsKeptOnce) {
  Store store = open_store(databases / "a.db");
  EXPECT_EQ(store.append(sample_records(0, 3)).value(), (AppendSummary{3, 0, 0}));
  EXPECT_EQ(store.append(sample_records(1, 3)).value(), (AppendSummary{1, 2, 0}));
  EXPECT_EQ(store.info().value().records, 4);
}

// There are more records than one statement sends to a server, and some occur twice.
TEST_P(AnyStore, KeepsTheOrderAndCountsWhatItHas) {
  std::vector<Record> records = sample_records(0, 150);
  const std::vector<Record> expected = records;
  records.insert(records.begin() + 60, expected.begin(), expected.begin() + 50);
  Store store = open_store(databases / "a.db");
  EXPECT_EQ(store.append(records).value(), (AppendSummary{150, 50, 0}));
  EXPECT_EQ(store.query({}).value(), expected);
  EXPECT_EQ(store.append(sample_records(100, 100)).value(), (AppendSummary{50, 50, 0}));
  EXPECT_EQ(store.query({.order = Order::Newest, .limit = 1}).value(), sample_records(199, 1));
  EXPECT_EQ(store.query({.limit = 90}).value(), sample_records(0, 90));
  EXPECT_TRUE(verify(store).value().ok());
}

TEST_P(AnyStore, OperatorsThatBeginAlikeAreToldApart) {
  Record one = sample_record(1, 1), other = sample_record(2, 2);
  one.op = std::string(4'000, 'x') + "1";
  other.op = std::string(4'000, 'x') + "2";
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(store.append({{seal(one), seal(other), sample_record(3)}}));
  EXPECT_EQ(store.query({.op = other.op}).value(), std::vector<Record>{seal(other)});
  EXPECT_EQ(store.query({.op = sample_record(3).op}).value(), sample_records(3, 1));
}

TEST_P(AnyStore, OnlyWhatIsBelievedWhereThatIsAsked) {
  Record one = sample_record(1), other = sample_record(2), alone = sample_record(3, 1);
  one.host = "host 1", one.session = "a";
  other.host = "host 2", other.session = "b";
  Record unconfirmed = with_latency(sample_record(0), 4'000);
  Record wrong = sample_record(4);
  wrong.status = TrialStatus::Wrong;
  Store store = open_store(databases / "a.db");
  const std::vector<Record> believed = {seal(one), seal(other), seal(alone)};
  ASSERT_TRUE(store.append({{unconfirmed, seal(wrong)}}));
  ASSERT_TRUE(store.append(believed));
  EXPECT_EQ(store.query({}).value().size(), 5u);
  EXPECT_EQ(store.query({.believed = true}).value(), believed);
  EXPECT_EQ(store.query({.believed = true, .limit = 2}).value(),
            (std::vector<Record>{believed[0], believed[1]}));
  EXPECT_EQ(store.query({.session = "b", .believed = true}).value(),
            std::vector<Record>{believed[1]});
}

// Meanwhile the writers of a file wait; those of a server do not.
TEST_P(AnyStore, QuestionsThatAreAskedTogetherSeeOneState) {
  FakeTime time;
  const std::vector<Record> faster = {with_latency(sample_record(5), 2'000)};
  make_database(databases / "a.db", sample_records(0, 3));
  Store reader = open_store(databases / "a.db", OpenMode::ReadOnly);
  Store writer = open_store(databases / "a.db", OpenMode::Update, {.waiting = time.waiting(100)});
  const auto best = [&] { return reader.best(key_of(sample_record(0))).value().value(); };
  {
    const auto one_state = reader.read_together();
    ASSERT_TRUE(one_state) << error_of(one_state);
    EXPECT_EQ(best(), sample_record(0));
    const auto appended = writer.append(faster);
    EXPECT_TRUE(appended || appended.error().code == ErrorCode::TryLater);
    EXPECT_EQ(best(), sample_record(0));
    EXPECT_EQ(explain(reader, key_of(sample_record(0))).value()->record, sample_record(0));
    EXPECT_EQ(reader.query({}).value(), sample_records(0, 3));
    EXPECT_EQ(best(), sample_record(0)) << "those that were asked in between did not end it";
  }
  EXPECT_TRUE(writer.append(faster));
  EXPECT_EQ(best(), faster[0]);
}

// The inner question must not use the compiled statement that the outer one is still using.
TEST_P(AnyStore, AQuestionMayBeAskedInsideOfTheSameOne) {
  make_database(databases / "a.db", sample_records(0, 4));
  Store store = open_store(databases / "a.db", OpenMode::ReadOnly);
  int64_t pairs = 0;
  for (int round = 0; round < 2; ++round)  // the second round uses statements that were kept
    ASSERT_TRUE(store.for_each({}, [&](const Record&) {
      return store.for_each({}, [&](const Record&) { return ++pairs > 0; }).has_value();
    }));
  EXPECT_EQ(pairs, 2 * 4 * 4);
}

TEST(Store, AMissingFileIsAnErrorForReaders) {
  const Folder folder;
  const auto store = Store::open(folder / "absent.db", OpenMode::ReadOnly);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::Database);
  EXPECT_FALSE(std::filesystem::exists(folder / "absent.db"));
}

TEST(Store, AMissingDirectoryIsAnErrorUnlessItIsAskedFor) {
  const Folder folder;
  const auto store = Store::open(folder / "absent/a.db", OpenMode::ReadWrite);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::Database);
  EXPECT_NE(store.error().message.find(folder / "absent"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "absent"));
}

TEST(Store, WhatIsToBeUpdatedMustExist) {
  const Folder folder;
  const auto missing = Store::open(folder / "absent.db", OpenMode::Update);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("absent.db does not exist"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  make_database(folder / "a.db", {});
  EXPECT_TRUE(open_store(folder / "a.db", OpenMode::Update).append(sample_records(0, 1)));
}

TEST_P(AnyStore, AReaderCannotAppend) {
  make_database(databases / "a.db", sample_records(0, 1));
  Store store = open_store(databases / "a.db", OpenMode::ReadOnly);
  EXPECT_EQ(store.append(sample_records(1, 1)).error().code, ErrorCode::Database);
}

TEST(Store, PathsAreTakenLiterally) {
  const Folder folder;
  const std::string names[] = {"file:x?mode=memory&vfs=none", ":memory:", "a b'c\"d;e=%20#?.db",
                               "\xc3\xbc.db"};
  for (const std::string& name : names) {
    make_database(folder / name, sample_records(0, 1));
    EXPECT_GT(std::filesystem::file_size(folder / name), 0u) << name;
    Store store = open_store(folder / name, OpenMode::ReadOnly);
    EXPECT_EQ(store.info().value().records, 1) << name;
  }
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 8);  // databases and gates only
  for (const std::string& bad : {std::string(), std::string("a\0b", 3), std::string("/")})
    EXPECT_EQ(Store::open(bad, OpenMode::ReadWrite).error().code, ErrorCode::Database) << bad;
}

TEST(Store, ALinkSharesTheGateOfItsFile) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 1));
  std::filesystem::create_symlink(folder / "a.db", folder / "link.db");
  EXPECT_EQ(open_store(folder / "link.db").path(), open_store(folder / "a.db").path());
}

TEST_P(AnyStore, BestFollowsWhatIsAppended) {
  Store store = open_store(databases / "a.db");
  const Record slow = sample_record(5), fast = sample_record(2);
  EXPECT_EQ(store.best(key_of(slow)).value(), std::nullopt);
  ASSERT_TRUE(store.append({{slow}}));
  EXPECT_EQ(store.best(key_of(slow)).value(), slow);
  ASSERT_TRUE(store.append({{fast}}));
  EXPECT_EQ(store.best(key_of(slow)).value(), fast);
  Record wrong = fast;
  wrong.status = TrialStatus::Wrong;
  ASSERT_TRUE(store.append({{seal(wrong)}}));
  EXPECT_EQ(store.best(key_of(slow)).value(), slow);
  EXPECT_TRUE(verify(store).value().ok());
}

TEST_P(AnyStore, Fault29_AMisclockedMachineDoesNotChangeTheBest) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(store.append(sample_records(0, 5)));
  const Record honest = sample_record(0);
  Record fast_clock = with_latency(sample_record(7), 6'000);
  fast_clock.peak_gflops = 200;
  Record no_peak = with_latency(sample_record(8), 2'000);
  no_peak.peak_gflops = 0;
  Record disturbed_peak = sample_record(9);
  disturbed_peak.peak_gflops = 40;
  Record outlier = with_latency(honest, 3'000);
  ASSERT_TRUE(store.append(
      {{seal(fast_clock), seal(no_peak), seal(disturbed_peak), outlier, sample_record(0, 1)}}));
  const Record best = store.best(key_of(honest)).value().value();
  EXPECT_EQ(best, honest);
  EXPECT_EQ(store.info().value().records, 10) << "kept, but not served";
}

// Only a ninth of the operations counts. So the limits of 6 and 10 times the peak are at 54 and 90
// times.
TEST_P(AnyStore, TermsInThePaddingAreNotBeyondThePeak) {
  Store store = open_store(databases / "a.db");
  const Record slow = dilated_record(0, 7), fast = dilated_record(1, 53);
  ASSERT_TRUE(store.append({{slow, dilated_record(2, 55), dilated_record(3, 91)}}));
  EXPECT_EQ(store.best(key_of(slow)).value(), slow);
  ASSERT_TRUE(store.append({{fast}}));
  EXPECT_EQ(store.best(key_of(slow)).value(), fast);
  EXPECT_EQ(store.info().value().records, 3) << "91 times the peak is quarantined";
  EXPECT_TRUE(verify(store).value().ok());
}

TEST_P(AnyStore, LookupPrefersTheDeviceThenTheTarget) {
  Store store = open_store(databases / "a.db");
  Record here = sample_record(9), other = sample_record(1), threads = sample_record(0);
  other.device = "Another CPU";
  threads.threads = 2;
  const std::vector<Record> records = {here, seal(other), seal(threads)};
  ASSERT_TRUE(store.append(records));
  Key key = key_of(here);
  EXPECT_EQ(store.best(key).value(), here);
  key.device = "A third CPU";  // decides by efficiency: `other` is faster at the same peak
  EXPECT_EQ(store.best(key).value(), records[1]);
  key.device.clear();
  EXPECT_EQ(store.best(key).value(), records[1]);
  key.threads = 2;
  EXPECT_EQ(store.best(key).value(), records[2]);
  key.threads = 4;
  EXPECT_EQ(store.best(key).value(), std::nullopt);
  key = key_of(here);
  key.target = "arm-64-linux";
  EXPECT_EQ(store.best(key).value(), std::nullopt);
  key = key_of(here);
  key.codegen_abi = 2;
  EXPECT_EQ(store.best(key).value(), std::nullopt);
}

TEST_P(AnyStore, LayoutsThatWereAskedForAreApartFromFreeOnes) {
  Store store = open_store(databases / "a.db");
  const Record free = sample_record(0);
  const Record asked = with_layouts(with_latency(free, 2e4), "in=NCHW16c out=NHWC"),
               others = with_layouts(with_latency(free, 3e4), "in=NHWC out=NHWC");
  ASSERT_TRUE(store.append({{asked}}));
  Key key = key_of(free);
  EXPECT_EQ(store.best(key).value(), std::nullopt);
  ASSERT_TRUE(store.append({{free, others}}));
  EXPECT_EQ(store.best(key).value(), free);
  key.layouts = asked.layouts;
  EXPECT_EQ(store.best(key).value(), asked);
  key.device = "another CPU";
  EXPECT_EQ(store.best(key).value(), asked);
  key.layouts = "in=NHWC";
  EXPECT_EQ(store.best(key).value(), std::nullopt);
  EXPECT_EQ(store.info()->best, 3);
  EXPECT_TRUE(verify(store)->ok());
  EXPECT_EQ(store.query({.layouts = ""}).value(), std::vector{free});
  EXPECT_EQ(store.query({.layouts = asked.layouts}).value(), std::vector{asked});
  EXPECT_EQ(store.query({}).value().size(), 3u);
}

TEST_P(AnyStore, QueriesFilterOrderAndLimit) {
  Store store = open_store(databases / "a.db");
  std::vector<Record> records = {sample_record(3), sample_record(1), sample_record(2, 1)};
  Record failed = sample_record(4, 4);
  failed.op = "conv2d";
  failed.session = "session-2";
  failed.status = TrialStatus::Timeout;
  records.push_back(seal(failed));
  ASSERT_TRUE(store.append(records));
  const auto count = [&](const Filter& filter) { return store.query(filter).value().size(); };
  EXPECT_EQ(count({}), 4u);
  EXPECT_EQ(count({.workload = records[2].workload}), 1u);
  EXPECT_EQ(count({.op = "matmul"}), 3u);
  EXPECT_EQ(count({.op = "conv2d", .session = "session-2", .status = TrialStatus::Timeout}), 1u);
  EXPECT_EQ(count({.target = "x"}), 0u);
  EXPECT_EQ(count({.threads = 1, .codegen_abi = 1}), 4u);
  EXPECT_EQ(count({.op = "' OR 1=1 --"}), 0u);
  EXPECT_EQ(count({.hash_prefix = ""}), 4u);
  for (const Record& record : records)
    for (const size_t digits : {15, 16, 64})
      EXPECT_EQ(store.query({.hash_prefix = record.hash.substr(0, digits)}).value(),
                std::vector{record});
  EXPECT_EQ(count({.op = "matmul", .hash_prefix = records[3].hash}), 0u);
  const auto fastest =
      store.query({.status = TrialStatus::Ok, .order = Order::Fastest, .limit = 2}).value();
  EXPECT_EQ(fastest, (std::vector<Record>{records[1], records[2]}));
  EXPECT_EQ(store.query({.order = Order::Newest, .limit = 1}).value().front(), records[3]);
}

TEST_P(AnyStore, TrialsWithoutATimeAreNotTheFastest) {
  Store store = open_store(databases / "a.db");
  std::vector<Record> records = {sample_record(1), sample_record(2), sample_record(3)};
  records[0].status = TrialStatus::Crash;
  records[0].latency_ns = records[0].latency_low_ns = records[0].latency_high_ns = 0;
  records[0].samples_ns.clear();
  records[0] = seal(records[0]);
  ASSERT_TRUE(store.append(records));
  EXPECT_EQ(store.query({.order = Order::Fastest}).value(),
            (std::vector<Record>{records[1], records[2], records[0]}));
  EXPECT_EQ(store.query({.order = Order::Fastest, .limit = 1}).value(),
            std::vector<Record>{records[1]});
}

TEST_P(AnyStore, ARecordThatIsDeletedMeanwhileIsNotDamaged) {
  make_database(databases / "a.db", sample_records(0, 200));
  std::string heard;
  StoreOptions options;
  options.waiting.on_message = [&](std::string_view message) { heard += message; };
  Store reader = open_store(databases / "a.db", OpenMode::ReadOnly, options);
  int64_t visited = 0;
  ASSERT_TRUE(reader.for_each({}, [&](const Record&) {
    if (visited++ == 0)
      run_in(databases / "a.db",
             "DELETE FROM trials WHERE seq >= (SELECT min(seq) + 100 FROM trials)");
    return true;
  }));
  EXPECT_EQ(visited, 100);
  EXPECT_EQ(reader.damaged(), 0);
  EXPECT_EQ(heard, "");
}

TEST_P(AnyStore, InfoCounts) {
  Store store = open_store(databases / "a.db");
  Record failed = sample_record(4);
  failed.status = TrialStatus::Crash;
  ASSERT_TRUE(store.append({{sample_record(0), sample_record(1, 1), seal(failed), Record{}}}));
  const StoreInfo info = store.info().value();
  EXPECT_EQ(info.records, 3);
  EXPECT_EQ(info.workloads, 2);
  EXPECT_EQ(info.best, 2);
  EXPECT_EQ(info.quarantined, 1);
  EXPECT_EQ(info.by_status.at("ok"), 2);
  EXPECT_EQ(info.by_status.at("crash"), 1);
  EXPECT_EQ(info.schema_version, schema_version);
  const bool on_file = GetParam() == Backend::File;
  EXPECT_EQ(info.journal_mode, on_file ? "delete" : "write-ahead log");
  EXPECT_NE(info.sqlite.empty(), on_file);
  EXPECT_EQ(info.server.empty(), on_file);
  EXPECT_GT(info.file_bytes, 0);
}

TEST_P(AnyStore, AReaderDoesNotKeepWritersOut) {
  make_database(databases / "a.db", sample_records(0, 5));
  Store reader = open_store(databases / "a.db", OpenMode::ReadOnly);
  Store writer = open_store(databases / "a.db", OpenMode::ReadWrite, {.waiting = {.limit_ms = 0}});
  ASSERT_TRUE(reader.best(key_of(sample_record(0))));
  EXPECT_TRUE(writer.append(sample_records(5, 1)));
  ASSERT_TRUE(reader.for_each({}, [&](const Record& record) {
    EXPECT_TRUE(writer.append({{sample_record(100 + record.trial)}}));
    return true;
  }));
  EXPECT_EQ(reader.info().value().records, 12);
}

}  // namespace
}  // namespace tw::db
