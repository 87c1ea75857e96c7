// SPDX-License-Identifier: Apache-2.0
#include "db/tables/read_records.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "db/maintenance.h"
#include "db/tables/rows.h"
#include "tests/db/backends.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

class AnyReadRecords : public OnBackends {};
TW_ON_BACKENDS(AnyReadRecords);

TEST(ReadRecords, KeepsARecordByItsRow) {
  ReadRecords records;
  EXPECT_EQ(records.find(7), nullptr);
  records.keep(7, sample_record(1));
  ASSERT_NE(records.find(7), nullptr);
  EXPECT_EQ(records.find(7)->record, sample_record(1));
  EXPECT_EQ(hex_of_bytes(records.find(7)->hash), sample_record(1).hash);
  records.keep(7, sample_record(2));
  EXPECT_EQ(records.find(7)->record, sample_record(2));
}

TEST(ReadRecords, TakeNoMoreMemoryThanTheyMay) {
  ReadRecords records;
  Record large = sample_record(0);
  large.schedule += std::string(200 << 10, ' ');
  large = seal(large);
  for (int round = 0; round < 100; ++round) records.keep(0, large);
  int64_t kept = 0;
  for (int64_t row = 1; row <= 100; ++row) {
    records.keep(row, large);
    ASSERT_NE(records.find(row), nullptr);
  }
  for (int64_t row = 0; row <= 100; ++row) kept += records.find(row) != nullptr;
  EXPECT_GT(kept, 1);
  EXPECT_LE(kept * (200 << 10), static_cast<int64_t>(ReadRecords::most_bytes));
}

// The next record gets the row number of the record that was deleted last.
TEST_P(AnyReadRecords, ARowThatNowHoldsAnotherRecordIsReadAnew) {
  const Record first = sample_record(0), second = sample_record(1);
  Store reader = [&] {
    make_database(databases / "a.db", {first});
    return open_store(databases / "a.db", OpenMode::ReadOnly);
  }();
  Store writer = open_store(databases / "a.db", OpenMode::Update);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(reader.best(key_of(first)).value(), first);
    ASSERT_TRUE(drop_record(writer, first));
    EXPECT_EQ(reader.best(key_of(first)).value(), std::nullopt);
    ASSERT_TRUE(writer.append({&second, 1}));
    EXPECT_EQ(reader.best(key_of(first)).value(), second);
    ASSERT_TRUE(drop_record(writer, second));
    ASSERT_TRUE(writer.append({&first, 1}));
  }
}

TEST(ReadRecords, Fault27_OfARowThatIsChangedOnlyWhatItsHashNamesIsServed) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 2));
  Store store = open_store(folder / "a.db", OpenMode::ReadOnly);
  const Key key = key_of(sample_record(0));
  ASSERT_EQ(store.best(key).value(), sample_record(0));
  RawSql(folder / "a.db")
      .run(
          "UPDATE trials SET texts = (SELECT texts FROM trials WHERE seq = 2) "
          "WHERE seq = 1");
  EXPECT_EQ(store.best(key).value(), sample_record(0));
  RawSql(folder / "a.db").run("UPDATE trials SET hash = zeroblob(32) WHERE seq = 1");
  EXPECT_EQ(store.best(key).value(), sample_record(1));
  EXPECT_EQ(store.damaged(), 1);
  Store fresh = open_store(folder / "a.db", OpenMode::ReadOnly);
  EXPECT_EQ(fresh.best(key).value(), sample_record(1));
}

}  // namespace
}  // namespace tw::db
