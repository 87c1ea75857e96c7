// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "db/schema.h"
#include "db/store.h"
#include "tests/db/process.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

TEST(Upgrade, Fault23_ANewerSchemaIsRefused) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  RawSql(folder / "a.db").run("PRAGMA user_version=2");
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

Connection connect(const std::string& path) { return std::move(*Connection::open(path, {})); }

TEST(Upgrade, Fault23_StepsRunInOneTransactionAfterABackup) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  const Migration steps[] = {
      {1, [](Connection& to) { return to.execute("ALTER TABLE best ADD COLUMN extra ANY"); }},
      {2, [](Connection& to) { return to.execute("UPDATE best SET extra = 5"); }},
  };
  {
    Connection connection = connect(folder / "a.db");
    ASSERT_TRUE(migrate(connection, steps, 3));
    EXPECT_EQ(connection.integer("PRAGMA user_version").value(), 3);
    EXPECT_EQ(connection.integer("SELECT extra FROM best").value(), 5);
  }
  Store backup = open_store(folder / "a.db.v1.backup", OpenMode::ReadOnly);
  EXPECT_EQ(hashes_in(backup), hashes_of(sample_records(0, 3)));
}

TEST(Upgrade, Fault23_AFailedStepLeavesTheOldVersion) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  const Migration steps[] = {
      {1, [](Connection& to) { return to.execute("DELETE FROM trials"); }},
      {2, [](Connection& to) { return to.execute("UPDATE nonsense SET x = 1"); }},
  };
  {
    Connection connection = connect(folder / "a.db");
    EXPECT_FALSE(migrate(connection, steps, 3));
  }
  Store store = open_store(folder / "a.db");
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 3)));
  EXPECT_TRUE(store.verify().value().ok());
}

TEST(Upgrade, Fault23_AKilledMigrationLeavesTheOldVersion) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 300));
  Process upgrade({"migrate-and-die", folder / "a.db"});
  EXPECT_EQ(upgrade.wait(), 128 + SIGKILL);
  EXPECT_TRUE(fs::exists(folder / "a.db-journal")) << "it died before it wrote anything";
  Store store = open_store(folder / "a.db", OpenMode::ReadOnly);  // a reader mends it, too
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 300)));
  EXPECT_TRUE(store.verify().value().ok());
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
