// SPDX-License-Identifier: Apache-2.0
#include "bench/databases/database.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "db/store.h"
#include "tests/db/samples.h"

namespace tw::bench {
namespace {

DatabaseOptions few_records(const db::Folder& folder) {
  return {.database = {},
          .folder = folder.path(),
          .records = 500,
          .merged = 130,
          .lookups = 20,
          .rounds = 3,
          .group_trials = {4, 600}};
}

/// Returns a clock that advances by 1 ms whenever it is read.
tuner::Clock ticking() {
  return [now = int64_t{0}]() mutable { return now += 1'000'000; };
}

TEST(Database, FiguresAreTimesOfWhatWasDone) {
  const db::Folder folder;
  const DatabaseFigures figures = measure_database(few_records(folder), ticking()).value();
  EXPECT_EQ(figures.records, 500);
  EXPECT_EQ(figures.groups, 8);
  EXPECT_DOUBLE_EQ(figures.opening_ms, 1);
  EXPECT_DOUBLE_EQ(figures.lookup_us, 1'000 / 20.0);
  EXPECT_DOUBLE_EQ(figures.lookup_alone_us, 1'000 / 20.0);
  EXPECT_DOUBLE_EQ(figures.commit_ms, 1);
  EXPECT_DOUBLE_EQ(figures.merged_per_s, 130'000);
  EXPECT_EQ(as_json(figures)["database"]["records"], 500);
  ASSERT_EQ(figures.growth.size(), 2u);
  EXPECT_EQ(figures.growth[1].trials, 600);
  EXPECT_DOUBLE_EQ(figures.growth[1].commit_ms, 1);
  EXPECT_GE(db::open_store(folder / "growth.db").info().value().records, 604);
  EXPECT_THAT(as_table(figures), testing::HasSubstr("130000 records a second"));
  EXPECT_EQ(db::open_store(folder / "merge.db").info().value().records, 130);
}

TEST(Database, AFilledDatabaseIsUsedAgainAndOneOfSomebodyElseIsNot) {
  const db::Folder folder;
  DatabaseOptions options = few_records(folder);
  ASSERT_TRUE(measure_database(options, ticking()));
  for (const char* name : {"merge.db", "growth.db"}) std::filesystem::remove(folder / name);
  EXPECT_EQ(measure_database(options, ticking()).value().records, 503);  // and the 3 of the commits
  options.database = folder / "own.db";
  db::make_database(options.database, db::sample_records(0, 1));
  const auto refused = measure_database(options, ticking());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Usage);
}

}  // namespace
}  // namespace tw::bench
