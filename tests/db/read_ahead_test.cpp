// SPDX-License-Identifier: Apache-2.0
#include "db/exchange/read_ahead.h"

#include <gtest/gtest.h>

#include <thread>

#include "db/tables/rows.h"
#include "tests/db/backends.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

class AnyReadAhead : public OnBackends {};
TW_ON_BACKENDS(AnyReadAhead);

Result<std::vector<Record>> all_of(ReadAhead& reading) {
  std::vector<Record> all;
  while (true) {
    TW_TRY(const std::vector<Record> some, reading.next());
    if (some.empty()) return all;
    all.insert(all.end(), some.begin(), some.end());
  }
}

TEST_P(AnyReadAhead, GivesWhatTheDatabaseHasInItsOrder) {
  const std::vector<Record> records = sample_records(0, 1300);
  make_database(databases / "a.db", records);
  const auto reading = ReadAhead::open(databases / "a.db", {}).value();
  EXPECT_EQ(all_of(*reading).value(), records);
  EXPECT_TRUE(reading->next().value().empty()) << "the end stays";
  EXPECT_EQ(reading->store().info().value().records, 1300);
}

TEST_P(AnyReadAhead, OfAnEmptyDatabaseThereIsOnlyTheEnd) {
  make_database(databases / "a.db", {});
  EXPECT_TRUE(ReadAhead::open(databases / "a.db", {}).value()->next().value().empty());
}

// There are more records than ReadAhead keeps for a reader that does not take them.
TEST(ReadAhead, MayBeGivenUp) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 6000));
  { const auto untouched = ReadAhead::open(folder / "a.db", {}).value(); }
  const auto reading = ReadAhead::open(folder / "a.db", {}).value();
  EXPECT_EQ(reading->next().value().front(), sample_record(0));
}

TEST(ReadAhead, TheThreadThatTakesRecordsHearsOfDamage) {
  const Folder folder;
  make_database(folder / "a.db", sample_records(0, 700));
  RawSql(folder / "a.db")
      .run(
          "UPDATE trials SET texts = (SELECT texts FROM trials WHERE seq = 1) "
          "WHERE seq IN (3, 650)");
  int heard = 0;
  const auto own = std::this_thread::get_id();
  const auto reading = ReadAhead::open(folder / "a.db", {.on_message = [&](std::string_view text) {
                                         EXPECT_EQ(std::this_thread::get_id(), own);
                                         heard += text.find("is damaged") != text.npos;
                                       }});
  EXPECT_EQ(all_of(**reading).value().size(), 698u);
  EXPECT_EQ(heard, 2);
}

TEST(ReadAhead, Fault15_ABrokenPageIsAnError) {
  const Folder folder;
  const std::vector<Record> records = sample_records(0, 200);
  make_database(folder / "a.db", records);
  std::string bytes = read_bytes(folder / "a.db");
  constexpr size_t page = 4096;
  bytes.replace(bytes.find(packed_texts(records[100])) / page * page, page, page, '\x5a');
  write_bytes(folder / "a.db", bytes);
  const auto all = all_of(*ReadAhead::open(folder / "a.db", {}).value());
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, ErrorCode::Database);
  EXPECT_FALSE(ReadAhead::open(folder / "absent.db", {}));
}

}  // namespace
}  // namespace tw::db
