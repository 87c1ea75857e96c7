// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/random.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "db/tables/rows.h"
#include "db/transfer.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

constexpr size_t page = 4096;

void expect_damage_error(const std::string& path, const std::string& content) {
  write_bytes(path, content);
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite}) {
    const auto store = Store::open(path, mode);
    ASSERT_FALSE(store) << path;
    EXPECT_EQ(store.error().code, ErrorCode::Database);
    EXPECT_NE(store.error().message.find("backup"), std::string::npos) << store.error().message;
    EXPECT_NE(store.error().message.find("db recover"), std::string::npos);
  }
  EXPECT_EQ(read_bytes(path), content) << "the original was touched";
}

TEST(Damage, Fault15_FilesThatAreNoDatabaseAreErrorsAndStayAsTheyAre) {
  const Folder folder;
  Random random(1);
  std::string noise(64 << 10, '\0');
  for (char& c : noise) c = static_cast<char>(random.below(256));
  make_database(folder / "good.db", sample_records(0, 100));
  const std::string good = read_bytes(folder / "good.db");
  expect_damage_error(folder / "empty.db", "");
  expect_damage_error(folder / "random.db", noise);
  expect_damage_error(folder / "text.db", std::string(20'000, 'x'));
  expect_damage_error(folder / "short.db", good.substr(0, 50));
}

TEST(Damage, Fault15_ATruncatedDatabaseServesOnlyTrueRecords) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 100);
  make_database(folder / "good.db", records);
  const std::string good = read_bytes(folder / "good.db");
  const std::set<std::string> known = hashes_of(records);
  for (size_t pages = 1; pages < good.size() / page; pages += 5) {
    const std::string path = folder / "cut.db";
    write_bytes(path, good.substr(0, pages * page + 100));
    auto store = Store::open(path, OpenMode::ReadOnly);
    if (!store) {
      EXPECT_EQ(store.error().code, ErrorCode::Database);
      continue;
    }
    (void)store->for_each({}, [&](const Record& record) {
      EXPECT_TRUE(known.contains(record.hash));
      return true;
    });
    const auto report = verify(*store);
    EXPECT_TRUE(!report || !report->ok()) << pages << " pages pass as whole";
  }
}

TEST(Damage, Fault16_AFlippedRecordIsSkippedAndTheRestServed) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 40);
  make_database(folder / "a.db", records);
  std::string bytes = read_bytes(folder / "a.db");
  const size_t at = bytes.find(packed_texts(records[7]));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 8] ^= 1;
  write_bytes(folder / "a.db", bytes);

  std::string heard;
  StoreOptions options;
  options.waiting.on_message = [&](std::string_view message) { heard += message; };
  Store store = open_store(folder / "a.db", OpenMode::ReadOnly, options);
  std::set<std::string> expected = hashes_of(records);
  expected.erase(records[7].hash);
  EXPECT_EQ(hashes_in(store), expected);
  EXPECT_EQ(store.damaged(), 1);
  EXPECT_NE(heard.find("damaged"), std::string::npos);
  const VerifyReport report = verify(store).value();
  EXPECT_EQ(report.damaged, 1);
  EXPECT_EQ(report.records, 39);
  EXPECT_FALSE(report.ok());
}

TEST(Damage, Fault15_ARecordOnABrokenPageIsDamaged) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 200);
  make_database(folder / "a.db", records);
  std::string bytes = read_bytes(folder / "a.db");
  bytes.replace(bytes.find(packed_texts(records[100])) / page * page, page, page, '\x5a');
  write_bytes(folder / "a.db", bytes);
  Store store = open_store(folder / "a.db", OpenMode::ReadOnly);
  EXPECT_EQ(store.find(records[100].hash).value(), std::nullopt);
  EXPECT_EQ(store.damaged(), 1);
}

TEST(Damage, Fault16_WhereTheBestIsDamagedTheNextOneIsServed) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 10);
  make_database(folder / "a.db", records);
  std::string bytes = read_bytes(folder / "a.db");
  bytes[bytes.find(packed_texts(records[0])) + 6] ^= 1;
  bytes[bytes.find(packed_texts(records[1])) + 6] ^= 1;
  write_bytes(folder / "a.db", bytes);
  Store store = open_store(folder / "a.db", OpenMode::ReadOnly);
  EXPECT_EQ(store.best(key_of(records[0])).value(), records[2]);
}

TEST(Damage, Fault16_NoFlippedBitChangesWhatIsServed) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 60);
  make_database(folder / "good.db", records);
  const std::string good = read_bytes(folder / "good.db");
  const std::set<std::string> known = hashes_of(records);
  const std::string path = folder / "flipped.db";
  int seen_by_verify = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    std::string bytes = good;
    for (int flips = 0; flips < 4; ++flips)
      bytes[random.below(static_cast<int64_t>(bytes.size()))] ^=
          static_cast<char>(1 << random.below(8));
    write_bytes(path, bytes);
    auto store = Store::open(path, OpenMode::ReadOnly);
    if (!store) continue;
    const auto report = verify(*store);
    seen_by_verify += !report || !report->ok();
    (void)store->for_each({}, [&](const Record& record) {
      EXPECT_TRUE(known.contains(record.hash) && check(record)) << "seed " << seed;
      return true;
    });
    const auto best = store->best(key_of(records[0]));
    EXPECT_TRUE(!best || !*best || known.contains((*best)->hash)) << "seed " << seed;
  }
  EXPECT_GT(seen_by_verify, 50);
}

TEST(Damage, Fault25_ATornCopyIsNoticed) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 200);
  const std::span<const Record> all(records);
  make_database(folder / "a.db", {records.begin(), records.begin() + 100});
  const std::string before = read_bytes(folder / "a.db");
  {
    Store store = open_store(folder / "a.db");
    ASSERT_TRUE(store.append(all.subspan(100)));
  }
  // The copy is as `cp` would make it during a commit: some of its pages are from before the
  // commit, the others from after it.
  std::string torn = read_bytes(folder / "a.db");
  for (size_t at = 0; at + page <= before.size(); at += 2 * page)
    torn.replace(at, page, before, at, page);
  write_bytes(folder / "torn.db", torn);
  auto store = Store::open(folder / "torn.db", OpenMode::ReadOnly);
  if (store) {
    const auto report = verify(*store);
    EXPECT_TRUE(!report || !report->ok());
    const std::set<std::string> known = hashes_of(records);
    (void)store->for_each({}, [&](const Record& record) {
      EXPECT_TRUE(known.contains(record.hash));
      return true;
    });
  } else {
    EXPECT_EQ(store.error().code, ErrorCode::Database);
  }
}

TEST(Damage, VerifyNoticesAWrongBest) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 5));
  RawSql(folder / "a.db").run("UPDATE best SET trial = 3");
  Store store = open_store(folder / "a.db");
  EXPECT_EQ(verify(store).value().wrong_best, 2);  // the wrong row and the missing one
  ASSERT_TRUE(derive_best(store));
  EXPECT_TRUE(verify(store).value().ok());
  ASSERT_TRUE(store.append(sample_records(5, 1)));  // a later write of the group keeps it right
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Damage, RecoverSavesWhatAgreesWithItsHash) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 200);
  make_database(folder / "a.db", records);
  std::string bytes = read_bytes(folder / "a.db");
  const size_t middle = bytes.find(packed_texts(records[100])) / page * page;
  bytes.replace(middle, page, page, '\x5a');  // destroys one page of the table
  write_bytes(folder / "a.db", bytes);
  const auto saved = recover(folder / "a.db", folder / "saved.db");
  ASSERT_TRUE(saved) << error_of(saved);
  EXPECT_GT(saved->inserted, 180);
  EXPECT_LT(saved->inserted, 200);
  EXPECT_EQ(read_bytes(folder / "a.db"), bytes) << "the original was touched";
  Store store = open_store(folder / "saved.db", OpenMode::ReadOnly);
  EXPECT_TRUE(verify(store).value().ok());
  for (const std::string& hash : hashes_in(store)) EXPECT_TRUE(hashes_of(records).contains(hash));
  EXPECT_FALSE(recover(folder / "a.db", folder / "saved.db")) << "it exists";
  EXPECT_FALSE(std::filesystem::exists(folder / "saved.db.recover"));
}

TEST(Damage, Fault15_WhatACutFileStillHoldsIsRecovered) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 400);
  make_database(folder / "whole.db", records);
  const std::string bytes = read_bytes(folder / "whole.db");
  int64_t least = 400;
  for (const size_t kept : {bytes.size() - 1, bytes.size() - page - 1, bytes.size() / 2}) {
    SCOPED_TRACE(kept);
    const std::string cut = folder / (std::to_string(kept) + ".db");
    write_bytes(cut, bytes.substr(0, kept));
    const auto saved = recover(cut, cut + ".saved");
    ASSERT_TRUE(saved) << error_of(saved);
    EXPECT_GT(saved->inserted, 20);
    EXPECT_LE(saved->inserted, least);
    least = saved->inserted;
    EXPECT_EQ(read_bytes(cut).size(), kept) << "the original was touched";
    Store store = open_store(cut + ".saved", OpenMode::ReadOnly);
    for (const std::string& hash : hashes_in(store)) EXPECT_TRUE(hashes_of(records).contains(hash));
  }
}

TEST(Damage, RecoverOfNoDatabaseIsAnError) {
  const Folder folder;
  write_bytes(folder / "noise.db", std::string(10'000, 'x'));
  EXPECT_EQ(recover(folder / "noise.db", folder / "saved.db").error().code, ErrorCode::Database);
  EXPECT_FALSE(std::filesystem::exists(folder / "saved.db"));
  EXPECT_EQ(recover(folder / "absent.db", folder / "saved.db").error().code, ErrorCode::Database);
}

}  // namespace
}  // namespace tw::db
