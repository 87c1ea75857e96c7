// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "db/recorder.h"
#include "db/spool.h"
#include "db/store.h"
#include "tests/db/fake_time.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

// Holds the gate, as another process does inside of its transaction.
class HeldGate {
 public:
  explicit HeldGate(const std::string& database)
      : descriptor_(open((database + ".lock").c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0666)) {
    EXPECT_EQ(flock(descriptor_, LOCK_EX | LOCK_NB), 0);
  }
  ~HeldGate() { release(); }
  void release() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

TEST(Waiting, Fault17_ALockedDatabaseIsWaitedForThenTryLater) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 1));
  FakeTime time;
  Store store = open_store(folder / "a.db", OpenMode::ReadWrite, {.waiting = time.waiting(60'000)});
  HeldGate held(folder / "a.db");
  const auto summary = store.append(sample_records(1, 1));
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::TryLater);
  EXPECT_EQ(time.now_ms, 60'000);
  EXPECT_EQ(time.messages.size(), 12u);
  EXPECT_NE(time.messages.front().find("waiting for"), std::string::npos);
  EXPECT_EQ(store.info().value().records, 1) << "reading goes on meanwhile";
  held.release();
  EXPECT_TRUE(store.append(sample_records(1, 1)));
}

TEST(Waiting, ALockFileThatWasRemovedIsMadeAnew) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 1));
  FakeTime time;
  Store store = open_store(folder / "a.db", OpenMode::ReadWrite, {.waiting = time.waiting(2'000)});
  std::filesystem::remove(folder / "a.db.lock");
  HeldGate held(folder / "a.db");
  EXPECT_EQ(store.append(sample_records(1, 1)).error().code, ErrorCode::TryLater)
      << "the lock on the removed file excludes nobody";
  held.release();
  EXPECT_TRUE(store.append(sample_records(1, 1)));
}

TEST(Waiting, Fault18_ADatabaseThatCannotBeMadeLeavesNoLockFile) {
  const Folder folder;
  std::filesystem::create_directories(folder / "a.db.new/inside");  // blocks the first name
  const auto store = Store::open(folder / "a.db", OpenMode::ReadWrite, {});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::Database);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.db"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.db.lock"));
}

TEST(Waiting, Fault17_ASqlLockIsWaitedForToo) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 1));
  FakeTime time;
  Store store = open_store(folder / "a.db", OpenMode::ReadWrite, {.waiting = time.waiting(2'000)});
  RawSql stranger(folder / "a.db");
  stranger.run("BEGIN EXCLUSIVE");
  EXPECT_EQ(store.append(sample_records(1, 1)).error().code, ErrorCode::TryLater);
  EXPECT_EQ(time.now_ms, 2'000);
  EXPECT_EQ(store.query({}).error().code, ErrorCode::TryLater);
  stranger.run("ROLLBACK");
  EXPECT_TRUE(store.append(sample_records(1, 1)));
}

TEST(Waiting, Fault17_ARunningTunerSpoolsAndMergesLater) {
  const Folder folder;
  FakeTime time;
  Store store = open_store(folder / "a.db", OpenMode::ReadWrite, {.waiting = time.waiting(1'000)});
  const Spool spool(Spool::spool_path(store.path()), time.waiting(1'000));
  Recorder recorder(store, spool, {.batch = 4, .on_message = time.waiting(0).on_message});
  HeldGate held(folder / "a.db");
  for (const Record& record : sample_records(0, 10)) ASSERT_TRUE(recorder.add(record));
  EXPECT_EQ(recorder.spooled(), 8);
  EXPECT_EQ(recorder.pending(), 2u);
  EXPECT_FALSE(spool.empty());
  EXPECT_NE(time.messages.back().find("4 records wait in"), std::string::npos);
  held.release();
  ASSERT_TRUE(recorder.flush());
  EXPECT_EQ(recorder.pending(), 0u);
  EXPECT_EQ(recorder.stored(), (AppendSummary{10, 0, 0}));
  EXPECT_TRUE(spool.empty());
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 10)));
}

TEST(Waiting, TheNextTunerMergesWhatAnotherSpooled) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  Spool spool(Spool::spool_path(store.path()));
  ASSERT_TRUE(spool.append(sample_records(0, 3)));
  Recorder recorder(store, spool);
  ASSERT_TRUE(recorder.flush());
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 3)));
  EXPECT_TRUE(spool.empty());
}

TEST(Waiting, Fault17_ASpoolThatStaysFullIsSaidOnce) {
  const Folder folder;
  FakeTime time, of_recorder;
  Store store = open_store(folder / "a.db");
  Spool spool(Spool::spool_path(store.path()), time.waiting(10));
  ASSERT_TRUE(spool.append(sample_records(0, 3)));
  Recorder recorder(store, spool, {.on_message = of_recorder.waiting(0).on_message});
  HeldGate held(spool.path());
  for (const Record& record : sample_records(3, 2)) {
    ASSERT_TRUE(recorder.add(record));
    ASSERT_TRUE(recorder.flush());
  }
  ASSERT_EQ(of_recorder.messages.size(), 1u);
  EXPECT_NE(of_recorder.messages[0].find(spool.path() + " still wait: ["), std::string::npos);
  held.release();
  ASSERT_TRUE(recorder.flush());
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 5)));
}

TEST(Waiting, AHalfLineOfAKilledSpoolerCostsOnlyItself) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  Spool spool(Spool::spool_path(store.path()));
  write_bytes(spool.path(),
              to_json(sample_record(0)) + '\n' + to_json(sample_record(1)).substr(0, 99));
  ASSERT_TRUE(spool.append(sample_records(2, 1)));
  EXPECT_EQ(spool.drain(store).value(), (AppendSummary{2, 0, 1}));
  EXPECT_EQ(hashes_in(store), hashes_of({sample_record(0), sample_record(2)}));
}

TEST(Waiting, WhereNothingCanBeWrittenRecordsStayInMemory) {
  const Folder folder;
  FakeTime time;
  Store store = open_store(folder / "a.db", OpenMode::ReadWrite, {.waiting = time.waiting(10)});
  Recorder recorder(store, Spool(folder / "no/such/folder/spool", time.waiting(10)),
                    {.batch = 2, .on_message = {}});
  HeldGate held(folder / "a.db");
  ASSERT_TRUE(recorder.add(sample_record(0)));
  const Status status = recorder.add(sample_record(1));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::TryLater);
  EXPECT_EQ(recorder.pending(), 2u);
  held.release();
  ASSERT_TRUE(recorder.flush());
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 2)));
}

}  // namespace
}  // namespace tw::db
