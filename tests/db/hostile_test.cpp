// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>

#include "db/maintenance.h"
#include "db/store.h"
#include "db/transfer.h"
#include "tests/db/process.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"
#include "tests/sanitizers.h"

namespace tw::db {
namespace {

const char* const crafted[] = {
    "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END",
    "CREATE VIEW v AS SELECT load_extension('x')",
    "CREATE TABLE extra(a)",
    "CREATE INDEX i ON trials(abs(noise))",
    "DROP TABLE best; CREATE VIEW best AS SELECT * FROM trials",
    "DROP TABLE best",
    "ALTER TABLE trials ADD COLUMN x INTEGER DEFAULT 5",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = 'CREATE TABLE best(x)' "
    "WHERE name = 'best'",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = 'nonsense'",
    "ALTER TABLE trials ADD COLUMN x INTEGER GENERATED ALWAYS AS (threads * 2) VIRTUAL",
    "CREATE TABLE t(a AS (b + 1), b AS (c * 2), c)",
    "CREATE INDEX i ON trials(status) WHERE latency_ns < 5",
    "PRAGMA application_id=7",
    "PRAGMA user_version=99",
};

TEST(Hostile, Fault27_TriggersViewsAndChangedTablesAreRefused) {
  for (const char* sql : crafted) {
    const Folder folder;
    make_database(folder / "a.db", sample_records(0, 3));
    RawSql(folder / "a.db").run(sql);
    for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite}) {
      const auto store = Store::open(folder / "a.db", mode);
      ASSERT_FALSE(store) << sql;
      EXPECT_EQ(store.error().code, ErrorCode::Database) << sql;
    }
  }
}

TEST(Hostile, Fault27_MergingACraftedFileLeavesOursAsItWas) {
  for (const char* sql : crafted) {
    const Folder folder;
    make_database(folder / "ours.db", sample_records(0, 3));
    make_database(folder / "theirs.db", sample_records(3, 3));
    RawSql(folder / "theirs.db").run(sql);
    const std::string before = read_bytes(folder / "ours.db");
    Store ours = open_store(folder / "ours.db");
    const auto merged = merge_from(ours, folder / "theirs.db");
    ASSERT_FALSE(merged) << sql;
    EXPECT_EQ(merged.error().code, ErrorCode::Database) << sql;
    EXPECT_EQ(read_bytes(folder / "ours.db"), before) << sql;
  }
}

// Two tables have the same pages, although the schema is ours, word by word.
TEST(Hostile, Fault27_TablesThatSharePagesGiveNothingUntrue) {
  for (const char* sql :
       {"UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = "
        "'trials') WHERE name = 'best'",
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = "
        "'best') WHERE name = 'trials'",
        "UPDATE sqlite_schema SET rootpage = 1 WHERE name = 'trials'"}) {
    const Folder folder;
    make_database(folder / "ours.db", sample_records(0, 3));
    make_database(folder / "theirs.db", sample_records(3, 3));
    RawSql(folder / "theirs.db").run(std::string("PRAGMA writable_schema=ON; ") + sql);
    Store ours = open_store(folder / "ours.db");
    (void)merge_from(ours, folder / "theirs.db");
    EXPECT_TRUE(verify(ours).value().ok()) << sql;
    for (const std::string& hash : hashes_in(ours))
      EXPECT_TRUE(hashes_of(sample_records(0, 6)).contains(hash)) << sql;
    auto theirs = Store::open(folder / "theirs.db", OpenMode::ReadOnly);
    if (!theirs) continue;
    const auto best = theirs->best(key_of(sample_record(3)));
    EXPECT_TRUE(!best || !*best || **best == sample_record(3)) << sql;
  }
}

TEST(Hostile, Fault27_ADatabaseOfAnotherProgramIsRefused) {
  const Folder folder;
  RawSql(folder / "other.db").run("CREATE TABLE trials(a); PRAGMA user_version=1");
  const std::string before = read_bytes(folder / "other.db");
  EXPECT_EQ(Store::open(folder / "other.db", OpenMode::ReadWrite).error().code,
            ErrorCode::Database);
  EXPECT_EQ(read_bytes(folder / "other.db"), before);
}

TEST(Hostile, Fault27_HugeValuesAreSkippedInBoundedMemory) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 10);
  make_database(folder / "a.db", records);
  RawSql(folder / "a.db")
      .run(
          "UPDATE trials SET texts = zeroblob(80000000) WHERE seq = 3;"
          "UPDATE trials SET samples_ns = zeroblob(60000000) WHERE seq = 5");
  Process reader({"read", folder / "a.db"});
  EXPECT_EQ(reader.line(), "8 2");
  long long peak_kib = 0;
  ASSERT_EQ(std::sscanf(reader.line().value_or("").c_str(), "peak %lld KiB", &peak_kib), 1);
  EXPECT_GT(peak_kib, 0);
  EXPECT_EQ(reader.wait(), 0);
  if (!has_shadow_memory) {
    EXPECT_LT(peak_kib, 100 << 10);
  }
}

TEST(Hostile, Fault27_ManyImpossibleRecordsDoNotFillTheDisk) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  std::string lines = to_json(sample_record(0)) + '\n';
  for (int i = 0; i < 12'000; ++i) lines += fmt::format("nonsense {}\n", i);
  std::istringstream in(lines);
  EXPECT_EQ(import_jsonl(store, in, "lines").value().quarantined, 12'000);
  EXPECT_EQ(store.info().value().quarantined, 10'000);
}

TEST(Hostile, ARecordUnderAnotherWorkloadIsNotServed) {
  const Folder folder;
  make_database(folder / "a.db", {sample_record(0), sample_record(1, 1)});
  RawSql(folder / "a.db")
      .run(
          "UPDATE trials SET group_id = (SELECT group_id FROM trials WHERE seq = 1);"
          "UPDATE best SET trial = 2");
  Store store = open_store(folder / "a.db", OpenMode::ReadOnly);
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(0));
  EXPECT_EQ(store.best(key_of(sample_record(1, 1))).value(), sample_record(1, 1));
  EXPECT_FALSE(verify(store).value().ok());
}

}  // namespace
}  // namespace tw::db
