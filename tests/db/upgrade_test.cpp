// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "db/calibration.h"
#include "db/claims.h"
#include "db/demand.h"
#include "db/maintenance.h"
#include "db/overview.h"
#include "db/recall.h"
#include "db/store.h"
#include "db/tables/schema.h"
#include "db/transfer.h"
#include "tests/db/process.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

TEST(Upgrade, Fault23_ANewerSchemaIsRefused) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  RawSql(folder / "a.db").run(fmt::format("PRAGMA user_version={}", schema_version + 1));
  const std::string before = read_bytes(folder / "a.db");
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite}) {
    const auto store = Store::open(folder / "a.db", mode);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, ErrorCode::Database);
    EXPECT_NE(store.error().message.find("newer program"), std::string::npos);
  }
  EXPECT_EQ(read_bytes(folder / "a.db"), before);
}

TEST(Upgrade, Fault23_AnOlderSchemaWithoutAWayIsRefused) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  RawSql(folder / "a.db").run("PRAGMA user_version=0");
  EXPECT_NE(error_of(Store::open(folder / "a.db", OpenMode::ReadOnly)).find("db upgrade"),
            std::string::npos);
  EXPECT_EQ(Store::open(folder / "a.db", OpenMode::ReadWrite).error().code, ErrorCode::Database);
}

std::unique_ptr<SqliteConnection> connect(const std::string& path) {
  return std::move(*SqliteConnection::open(path, {}));
}

TEST(Upgrade, Fault23_StepsRunInOneTransactionAfterABackup) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  const Migration steps[] = {
      {schema_version,
       [](Connection& to) { return to.execute("ALTER TABLE best ADD COLUMN extra ANY"); }},
      {schema_version + 1, [](Connection& to) { return to.execute("UPDATE best SET extra = 5"); }},
  };
  {
    const auto connection = connect(folder / "a.db");
    ASSERT_TRUE(migrate(*connection, steps, schema_version + 2));
    EXPECT_EQ(connection->integer("PRAGMA user_version").value(), schema_version + 2);
    EXPECT_EQ(connection->integer("SELECT extra FROM best").value(), 5);
  }
  Store backup =
      open_store(folder / fmt::format("a.db.v{}.backup", schema_version), OpenMode::ReadOnly);
  EXPECT_EQ(hashes_in(backup), hashes_of(sample_records(0, 3)));
}

TEST(Upgrade, Fault23_AnOldBackupIsNotTakenForThatOfTheFile) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  const std::string first = folder / fmt::format("a.db.v{}.backup", schema_version);
  write_bytes(first, "of another file");
  write_bytes(first + ".2", "of a third");
  const Migration steps[] = {
      {schema_version, [](Connection& to) { return to.execute("DELETE FROM best"); }}};
  ASSERT_TRUE(migrate(*connect(folder / "a.db"), steps, schema_version + 1));
  EXPECT_EQ(read_bytes(first), "of another file");
  EXPECT_EQ(read_bytes(first + ".2"), "of a third");
  Store backup = open_store(first + ".3", OpenMode::ReadOnly);
  EXPECT_EQ(hashes_in(backup), hashes_of(sample_records(0, 3)));
}

TEST(Upgrade, Fault23_AFailedStepLeavesTheOldVersion) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  const Migration steps[] = {
      {schema_version, [](Connection& to) { return to.execute("DELETE FROM trials"); }},
      {schema_version + 1, [](Connection& to) { return to.execute("UPDATE nonsense SET x = 1"); }},
  };
  {
    const auto connection = connect(folder / "a.db");
    EXPECT_FALSE(migrate(*connection, steps, schema_version + 2));
  }
  EXPECT_FALSE(fs::exists(folder / fmt::format("a.db.v{}.backup", schema_version)));
  Store store = open_store(folder / "a.db");
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 3)));
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Upgrade, Fault23_AKilledMigrationLeavesTheOldVersion) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 300));
  Process upgrade({"migrate-and-die", folder / "a.db"});
  EXPECT_EQ(upgrade.wait(), 128 + SIGKILL);
  EXPECT_TRUE(fs::exists(folder / "a.db-journal")) << "it died before it wrote anything";
  Store store = open_store(folder / "a.db", OpenMode::ReadOnly);  // a reader repairs the file too
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 300)));
  EXPECT_TRUE(verify(store).value().ok());
}

// ---- version 1 ----

/// Returns a copy of a file that a program of this schema version wrote. It has the first five
/// sample records, and one line in quarantine.
std::string copy_of_version(int version, const Folder& folder) {
  const std::string path = folder / "a.db";
  write_bytes(path, read_bytes(fmt::format("{}/version_{}.db", TW_DB_DATA, version)));
  return path;
}
std::string copy_of_version_1(const Folder& folder) { return copy_of_version(1, folder); }

TEST(Upgrade, Version1IsReadOnceItIsUpgraded) {
  const Folder folder;
  const std::string path = copy_of_version_1(folder);
  EXPECT_NE(error_of(Store::open(path, OpenMode::ReadOnly)).find("tilewright db upgrade"),
            std::string::npos);
  (void)open_store(path, OpenMode::Update);
  Store store = open_store(path, OpenMode::ReadOnly);  // the tables are those of a new file
  EXPECT_EQ(store.query({}).value(), sample_records(0, 5));
  const StoreInfo info = store.info().value();
  EXPECT_EQ(info.schema_version, schema_version);
  EXPECT_EQ(info.quarantined, 1);
  EXPECT_EQ(info.best, 1);
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Upgrade, Version1TakesFactsOfVersion2) {
  const Folder folder;
  const std::string path = copy_of_version_1(folder);
  Record record = sample_record(5);
  record.machine = "Zen 4; table; 0123456789abcdef";
  record.configuration = "out: cpu_tile";
  const std::vector<Record> known = {sample_record(4)}, added = {seal(record)};
  Store store = open_store(path);
  EXPECT_EQ(store.append(known).value().duplicates, 1);
  EXPECT_EQ(store.append(added).value().inserted, 1);
  EXPECT_TRUE(add_calibration(store, sample_calibration()));
  EXPECT_EQ(store.query({.order = Order::Newest, .limit = 1}).value(), added);
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(0));
  EXPECT_EQ(calibrations(store).value().size(), 1u);
  EXPECT_TRUE(verify(store).value().ok());
}

// Records of version 1 have the column of layouts already. It is empty, because their runs left the
// layouts free.
TEST(Upgrade, RecordsOfVersion1AreOfFreeLayouts) {
  const Folder folder;
  Store store = open_store(copy_of_version_1(folder));
  const Record free = sample_record(0), asked = with_layouts(sample_record(7), "in=NHWC");
  EXPECT_EQ(store.best(key_of(free)).value(), free);
  EXPECT_EQ(store.best(key_of(asked)).value(), std::nullopt);
  ASSERT_TRUE(store.append({{asked}}));
  EXPECT_EQ(store.best(key_of(free)).value(), free);
  EXPECT_EQ(store.best(key_of(asked)).value(), asked);
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Upgrade, TheBackupOfVersion1IsTheFileAsItWas) {
  const Folder folder;
  const std::string path = copy_of_version_1(folder);
  (void)open_store(path, OpenMode::Update);
  const auto backup = connect(path + ".v1.backup");
  EXPECT_EQ(backup->integer("PRAGMA user_version").value(), 1);
  EXPECT_EQ(backup->integer("SELECT count(*) FROM trials").value(), 5);
  EXPECT_FALSE(backup->integer("SELECT count(*) FROM calibrations"));
}

TEST(Upgrade, Fault23_Version1KilledInItsLastStepIsVersion1) {
  const Folder folder;
  const std::string path = copy_of_version_1(folder);
  Process upgrade({"upgrade-and-die", path});
  EXPECT_EQ(upgrade.wait(), 128 + SIGKILL);
  {
    const auto connection = connect(path);
    EXPECT_EQ(connection->integer("PRAGMA user_version").value(), 1);
    EXPECT_FALSE(connection->integer("SELECT count(*) FROM calibrations"));
  }
  Store store = open_store(path);
  EXPECT_EQ(store.query({}).value(), sample_records(0, 5));
}

TEST(Upgrade, Fault15_RecordsOfVersion1AreRecovered) {
  const Folder folder;
  const std::string path = copy_of_version_1(folder);
  EXPECT_EQ(recover(path, folder / "fresh.db").value().inserted, 5);
  Store store = open_store(folder / "fresh.db");
  EXPECT_EQ(store.query({}).value(), sample_records(0, 5));
}

// ---- version 2 ----

// The best trial that the file names is not the one that the present rule chooses.
TEST(Upgrade, Version2IsJudgedByThePresentRule) {
  const Folder folder;
  const std::string path = copy_of_version(2, folder);
  EXPECT_NE(error_of(Store::open(path, OpenMode::ReadOnly)).find("tilewright db upgrade"),
            std::string::npos);
  Store store = open_store(path);
  EXPECT_EQ(store.query({}).value(), sample_records(0, 5));
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(0));
  Record record = sample_record(5);
  record.bytes = 3 * 64 * 64 * 4;
  record.peak_gb_per_s = 300;
  record = seal(record);
  ASSERT_TRUE(store.append({{record}}));
  EXPECT_EQ(store.query({.order = Order::Newest, .limit = 1}).value().front(), record);
  EXPECT_TRUE(verify(store).value().ok());
}

// ---- version 3 ----

TEST(Upgrade, Version3KeepsItsRecordsInTheirOrder) {
  const Folder folder;
  const std::string path = copy_of_version(3, folder);
  EXPECT_EQ(recover(path, folder / "saved.db").value().inserted, 5);
  Store store = open_store(path, OpenMode::Update);
  EXPECT_EQ(store.query({}).value(), sample_records(0, 5));
  EXPECT_EQ(groups(store, 9).value().size(), 1u);
  EXPECT_EQ(store.info().value().by_status.at("ok"), 5);
  EXPECT_EQ(store.info().value().quarantined, 1);
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Upgrade, Fault16_ADamagedRowOfVersion3IsNamedInQuarantine) {
  const Folder folder;
  const std::string path = copy_of_version(3, folder);
  RawSql(path).run("UPDATE trials SET schedule = 'tw1 other' WHERE seq = 2");
  Store store = open_store(path);
  EXPECT_EQ(store.query({}).value().size(), 4u);
  const std::vector<Quarantined> aside = db::quarantined(store, 0).value();
  ASSERT_EQ(aside.size(), 2u);
  EXPECT_TRUE(aside[0].line == "trial 2 of schema version 3" ||
              aside[1].line == "trial 2 of schema version 3");
  EXPECT_TRUE(verify(store).value().ok());
}

// ---- version 4 ----

TEST(Upgrade, Version4GetsTheTablesOfRuns) {
  const Folder folder;
  const std::string path = copy_of_version(4, folder);
  EXPECT_NE(error_of(Store::open(path, OpenMode::ReadOnly)).find("tilewright db upgrade"),
            std::string::npos);
  Store store = open_store(path, OpenMode::Update);
  EXPECT_EQ(store.query({}).value(), sample_records(0, 5));
  EXPECT_TRUE(demands(store, {}).value().empty());
  const std::string schedule = schedule_key(sample_record(9).schedule);
  EXPECT_EQ(claim(store, key_of(sample_record(0)), {&schedule, 1}, "session-2", "host").value(),
            std::vector<bool>{true});
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Upgrade, ACreationThatWasKilledIsStartedOver) {
  const Folder folder;
  write_bytes(folder / "a.db.new", "half of a database");
  write_bytes(folder / "a.db.new-journal", "and its journal");
  Store store = open_store(folder / "a.db");
  EXPECT_TRUE(store.append(sample_records(0, 1)));
  EXPECT_FALSE(fs::exists(folder / "a.db.new"));
}

}  // namespace
}  // namespace tw::db
