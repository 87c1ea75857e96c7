// SPDX-License-Identifier: Apache-2.0
#include "db/exchange/csv.h"

#include <gtest/gtest.h>

#include <sstream>

#include "db/transfer.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

Record odd_record() {
  Record record = sample_record(1);
  record.reason = "quote \" comma , line\nfeed \r\n and umlaut \xc3\xbc";
  record.schedule = "tw1 split m 2;\nvectorize n.1 8, \"x\"";
  record.samples_ns = {0.1, 1e-300, 123456789.123456789};
  record.configuration = "out: cpu_tile";
  record.bytes = 4096;
  record.noise = -0.0;
  return seal(std::move(record));
}

std::vector<std::string> columns() {
  std::istringstream in(csv_header());
  std::vector<std::string> names;
  std::string text;
  EXPECT_TRUE(next_csv_row(in, names, text).value());
  return names;
}

TEST(Csv, RowsRoundTripExactly) {
  std::istringstream in(to_csv(sample_record(0)) + to_csv(odd_record()));
  std::vector<std::string> cells;
  std::string text;
  for (const Record& expected : {sample_record(0), odd_record()}) {
    ASSERT_TRUE(next_csv_row(in, cells, text).value());
    const Result<Record> record = from_csv(columns(), cells);
    ASSERT_TRUE(record) << error_of(record);
    EXPECT_EQ(*record, expected);
    EXPECT_TRUE(check(*record)) << error_of(check(*record));
  }
  EXPECT_FALSE(next_csv_row(in, cells, text).value());
}

TEST(Csv, ColumnsOfLaterVersionsMayBeAbsentAndOthersMayNot) {
  const std::vector<std::string> names = columns();
  std::istringstream in(to_csv(sample_record(0)));
  std::vector<std::string> cells;
  std::string text;
  ASSERT_TRUE(next_csv_row(in, cells, text).value());
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> some_names = names, some_cells = cells;
    some_names.erase(some_names.begin() + static_cast<std::ptrdiff_t>(i));
    some_cells.erase(some_cells.begin() + static_cast<std::ptrdiff_t>(i));
    const Result<Record> record = from_csv(some_names, some_cells);
    const bool is_later = names[i] == "machine" || names[i] == "configuration" ||
                          names[i] == "bytes" || names[i] == "peak_gb_per_s";
    EXPECT_EQ(record.has_value(), is_later) << names[i];
  }
}

TEST(Csv, BadRowsAreErrors) {
  const std::vector<std::string> names = columns();
  std::istringstream in(to_csv(sample_record(0)));
  std::vector<std::string> cells;
  std::string text;
  ASSERT_TRUE(next_csv_row(in, cells, text).value());
  for (const char* column : {"threads", "latency_ns", "status", "samples_ns"}) {
    std::vector<std::string> bad = cells;
    bad[static_cast<size_t>(std::find(names.begin(), names.end(), column) - names.begin())] = "1x";
    const Result<Record> record = from_csv(names, bad);
    ASSERT_FALSE(record);
    EXPECT_NE(record.error().message.find(column), std::string::npos);
  }
  cells.pop_back();
  EXPECT_EQ(from_csv(names, cells).error().code, ErrorCode::Invalid);
}

TEST(Csv, Fault27_ALongRowIsNotKeptInMemory) {
  std::istringstream in(std::string(4 * max_line_bytes, 'x') + "\na,b\n");
  std::vector<std::string> cells;
  std::string text;
  ASSERT_TRUE(next_csv_row(in, cells, text).value());
  EXPECT_TRUE(cells.empty());
  EXPECT_LE(text.size(), max_line_bytes + 1);
  ASSERT_TRUE(next_csv_row(in, cells, text).value());
  EXPECT_EQ(cells, (std::vector<std::string>{"a", "b"}));
}

TEST(Csv, FilesAreExportedAndImported) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  ASSERT_TRUE(store.append({{sample_record(0), odd_record(), sample_record(5)}}));
  ASSERT_TRUE(export_to(store, folder / "out.csv"));
  Store other = open_store(folder / "b.db");
  EXPECT_EQ(import_csv(other, folder / "out.csv").value(), (AppendSummary{3, 0, 0}));
  EXPECT_EQ(hashes_in(other), hashes_in(store));

  std::string rows = read_bytes(folder / "out.csv");
  rows.replace(rows.find("10000"), 5, "10001");  // a change by hand
  std::istringstream in(rows);
  Store third = open_store(folder / "c.db");
  EXPECT_EQ(import_csv(third, in, "rows").value(), (AppendSummary{2, 0, 1}));
  EXPECT_EQ(third.info().value().quarantined, 1);
}

TEST(Csv, AnotherTableIsRefused) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  std::istringstream table("name,latency\nx,5\n");
  EXPECT_EQ(import_csv(store, table, "table").error().code, ErrorCode::Invalid);
  std::istringstream nothing("");
  EXPECT_EQ(import_csv(store, nothing, "nothing").error().code, ErrorCode::Invalid);
  EXPECT_EQ(import_csv(store, folder / "a.db").error().code, ErrorCode::Invalid);
}

TEST(Csv, AnotherTableWithHashesIsRefused) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  std::string rows = "name,hash\n";
  for (int i = 0; i < 100; ++i) rows += "x,5\n";
  std::istringstream table(rows);
  const auto refused = import_csv(store, table, "table");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
  EXPECT_NE(refused.error().message.find("table holds no records"), std::string::npos);
  EXPECT_EQ(store.info().value().quarantined, 0);
  std::string bad;
  for (int i = 0; i < 63; ++i) bad += "x,5\r\n";
  std::istringstream few(csv_header() + bad + to_csv(sample_record(0)) + bad);
  EXPECT_EQ(import_csv(store, few, "few").value(), (AppendSummary{1, 0, 126}));
  std::istringstream many(csv_header() + bad + "x,5\r\n" + to_csv(sample_record(1)));
  EXPECT_EQ(import_csv(store, many, "many").error().code, ErrorCode::Invalid);
}

}  // namespace
}  // namespace tw::db
