// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "db/engine/filesystem.h"
#include "db/spool.h"
#include "db/store.h"
#include "tests/db/process.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

TEST(Environment, Fault18_AFullDiskLosesNothingThatWasAcknowledged) {
  const Folder folder;
  fs::create_directory(folder / "disk");
  Process writer({"fill", folder / "disk", folder / "spool.jsonl"});
  const std::string output = writer.rest();
  EXPECT_EQ(writer.wait(), 0) << output;
  long long stopped = 0, pending = 0, stored = 0, spooled = 0, spooling = 0, left = 0, aside = 0,
            intact = 0, records = 0;
  char message[400] = {};
  ASSERT_EQ(std::sscanf(output.c_str(),
                        "stopped %lld pending %lld stored %lld spooled %lld\nmessage %399[^\n]\n"
                        "spooling %lld pending %lld spooled %lld\nintact %lld records %lld",
                        &stopped, &pending, &stored, &spooled, message, &spooling, &left, &aside,
                        &intact, &records),
            10)
      << output;
  EXPECT_EQ(stopped, 1) << "the disk never became full";
  EXPECT_EQ(pending, 64) << "the last batch stays in memory";
  EXPECT_GT(stored, 0);
  EXPECT_EQ(intact, 1);
  EXPECT_EQ(records, stored);
  EXPECT_EQ(spooling, 1) << "a spool elsewhere takes the records";
  EXPECT_EQ(left, 0);
  EXPECT_EQ(aside, 512);
  Store store = open_store(folder / "later.db");
  EXPECT_EQ(Spool(folder / "spool.jsonl").drain(store).value().inserted, 512);
}

TEST(Environment, Fault19_AReadOnlyDatabaseIsReadAndSaidAtStartWhenWriting) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  fs::permissions(folder.path(),
                  fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  // First neither the file nor its directory may be written, then only the directory may not.
  for (const fs::perms mode : {fs::perms(0444), fs::perms(0666)}) {
    fs::permissions(folder / "a.db", mode);
    fs::permissions(folder.path(), fs::perms(0555));
    Process writer({"open", folder / "a.db"});
    const std::string output = writer.rest();
    EXPECT_EQ(writer.wait(), static_cast<int>(ErrorCode::Database));
    EXPECT_NE(output.find("cannot be written"), std::string::npos) << output;
    Process reader({"list", folder / "a.db"});
    EXPECT_EQ(reader.line(), "3 0");
    EXPECT_EQ(reader.wait(), 0);
  }
}

TEST(Environment, Fault19_AReadOnlyFileInAWritableFolderIsSaidAtStart) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  fs::permissions(folder / "a.db", fs::perms(0444));
  fs::permissions(folder / "a.db.lock", fs::perms(0666));
  fs::permissions(folder.path(), fs::perms(0777));
  Process writer({"open", folder / "a.db"});
  const std::string output = writer.rest();
  EXPECT_EQ(writer.wait(), static_cast<int>(ErrorCode::Database));
  EXPECT_NE(output.find("cannot be written"), std::string::npos) << output;
}

TEST(Environment, Fault24_NetworkAndFuseFileSystemsAreRefusedForWriting) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 1));
  const auto on = [](int64_t type) {
    return StoreOptions{.filesystem = [=](const std::string&) -> Result<int64_t> { return type; }};
  };
  for (const int64_t type : {0x6969, 0x65735546, 0x517B}) {
    const auto store = Store::open(folder / "a.db", OpenMode::ReadWrite, on(type));
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, ErrorCode::Database);
    EXPECT_NE(store.error().message.find(unsafe_filesystem(type)), std::string::npos);
    EXPECT_TRUE(Store::open(folder / "a.db", OpenMode::ReadOnly, on(type)));
    StoreOptions allowed = on(type);
    allowed.allow_network_filesystem = true;
    EXPECT_TRUE(Store::open(folder / "a.db", OpenMode::ReadWrite, allowed));
  }
  constexpr int64_t overlayfs = 0x794c7630, ext4 = 0xEF53, tmpfs = 0x01021994;
  for (const int64_t type : {overlayfs, ext4, tmpfs})
    EXPECT_TRUE(Store::open(folder / "a.db", OpenMode::ReadWrite, on(type)));
  EXPECT_TRUE(filesystem_type(folder.path()));
  EXPECT_FALSE(filesystem_type(folder / "absent"));
}

TEST(Environment, Fault26_VersionsWithTheWalBugAreKnown) {
  for (const int64_t affected : {3'007'000, 3'040'001, 3'044'005, 3'045'000, 3'050'006, 3'051'002})
    EXPECT_TRUE(has_wal_reset_bug(affected)) << affected;
  for (const int64_t fine : {3'006'023, 3'044'006, 3'050'007, 3'051'003, 3'053'000})
    EXPECT_FALSE(has_wal_reset_bug(fine)) << fine;
  EXPECT_NE(describe_sqlite(3'040'001).find("SQLite 3.40.1: can corrupt WAL"), std::string::npos);
}

TEST(Environment, Fault26_AWalDatabaseIsTakenBackToTheRollbackJournal) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 3));
  RawSql(folder / "a.db").run("PRAGMA journal_mode=WAL");
  Store store = open_store(folder / "a.db");
  EXPECT_EQ(store.info().value().journal_mode, "delete");
  EXPECT_TRUE(store.append(sample_records(3, 1)));
  EXPECT_FALSE(fs::exists(folder / "a.db-wal"));
}

}  // namespace
}  // namespace tw::db
