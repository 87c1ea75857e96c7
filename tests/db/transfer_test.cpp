// SPDX-License-Identifier: Apache-2.0
#include "db/transfer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ios>
#include <sstream>
#include <streambuf>
#include <utility>

#include "db/exchange/csv.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "tests/db/backends.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

class AnyTransfer : public OnBackends {};
TW_ON_BACKENDS(AnyTransfer);

TEST_P(AnyTransfer, LinesRoundTrip) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(store.append(sample_records(0, 20)));
  ASSERT_TRUE(export_to(store, files / "out.jsonl"));
  Store other = open_store(databases / "b.db");
  EXPECT_EQ(import_jsonl(other, files / "out.jsonl").value(), (AppendSummary{20, 0, 0}));
  EXPECT_EQ(import_jsonl(other, files / "out.jsonl").value(), (AppendSummary{0, 20, 0}));
  EXPECT_EQ(other.query({}).value(), store.query({}).value());
}

TEST_P(AnyTransfer, LayoutsThatWereAskedForTravelWithTheirRecords) {
  Store store = open_store(databases / "a.db");
  const Record free = sample_record(0), asked = with_layouts(free, "in=NCHW16c out=NHWC");
  ASSERT_TRUE(store.append({{free, asked}}));
  ASSERT_TRUE(export_to(store, files / "out.jsonl"));
  ASSERT_TRUE(export_to(store, files / "out.db"));
  Store imported = open_store(databases / "b.db"), merged = open_store(databases / "c.db");
  ASSERT_TRUE(import_jsonl(imported, files / "out.jsonl"));
  ASSERT_TRUE(merge_from(merged, files / "out.db"));
  for (Store* other : {&imported, &merged})
    for (const Record& record : {free, asked})
      EXPECT_EQ(other->best(key_of(record)).value(), record);
}

TEST_P(AnyTransfer, BadLinesCostOnlyThemselves) {
  std::string lines = "\nnot json\n" + to_json(sample_record(0)) + "\r\n";
  std::string tampered = to_json(sample_record(1));
  lines += tampered.replace(tampered.find("tw1"), 3, "tw9") + '\n';
  lines += std::string(3 * max_line_bytes, 'x') + '\n';
  lines += to_json(sample_record(2)).substr(0, 300) + '\n';
  lines += to_json(sample_record(3));  // the last line may lack its line break
  std::istringstream in(lines);
  Store store = open_store(databases / "a.db");
  EXPECT_EQ(import_jsonl(store, in, "lines").value(), (AppendSummary{2, 0, 4}));
  EXPECT_EQ(hashes_in(store), hashes_of({sample_record(0), sample_record(3)}));
  EXPECT_EQ(store.info().value().quarantined, 4);
}

/// A buffer that gives its text and then fails, as the buffer of a file does if a read fails.
class FailingBuffer : public std::streambuf {
 public:
  explicit FailingBuffer(std::string text) : text_(std::move(text)) {
    setg(text_.data(), text_.data(), text_.data() + text_.size());
  }

 private:
  int_type underflow() override { throw std::ios_base::failure("no such sector"); }
  std::string text_;
};

TEST(Transfer, LinesThatCannotBeReadToTheirEndAreAnError) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  for (const std::string& text : {std::string(), to_json(sample_record(0)) + "\n"}) {
    FailingBuffer given(text), spooled(text);
    std::istream lines(&given), spool(&spooled);
    EXPECT_EQ(import_jsonl(store, lines, "lines").error().code, ErrorCode::Database);
    EXPECT_EQ(import_spooled(store, spool).error().code, ErrorCode::Database);
  }
}

TEST(Transfer, AFileWithoutRecordsIsRefusedWhole) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const auto refusal = [&](const std::string& bytes) {
    write_bytes(folder / "given", bytes);
    const auto imported = import_jsonl(store, folder / "given");
    EXPECT_EQ(imported.error().code, ErrorCode::Invalid);
    EXPECT_EQ(store.info().value().quarantined, 0);
    return error_of(imported);
  };
  EXPECT_NE(refusal("not\na\nrecord\n").find("holds no records"), std::string::npos);
  EXPECT_NE(refusal(std::string(200, '\n') + "{}").find("holds no records"), std::string::npos);
  std::string late;
  for (int i = 0; i < 1000; ++i) late += "nonsense\n";
  EXPECT_NE(refusal(late + to_json(sample_record(0))).find("holds no records"), std::string::npos);
  make_database(folder / "b.db", sample_records(0, 3));
  EXPECT_NE(refusal(read_bytes(folder / "b.db")).find("db merge"), std::string::npos);
  std::istringstream in(read_bytes(folder / "b.db"));
  EXPECT_NE(error_of(import_jsonl(store, in, "standard input")).find("db merge"),
            std::string::npos);
  EXPECT_EQ(import_jsonl(store, folder.path().string()).error().code, ErrorCode::Database);
  write_bytes(folder / "empty", "");
  EXPECT_EQ(import_jsonl(store, folder / "empty").value(), AppendSummary{});
}

TEST(Transfer, ARefusalNamesTheLineAndTheField) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const auto refusal = [&](const std::string& lines) {
    std::istringstream in(lines);
    return error_of(import_jsonl(store, in, "bad.jsonl"));
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string record = refusal("\n\n{\"recor\": 1}\n{}\n");
  EXPECT_TRUE(holds(record, "line 3 is refused: [record] the field record is missing")) << record;
  const std::string machine = refusal("{\"calibration\":1}\n");
  EXPECT_TRUE(holds(machine, "line 1 is refused: [calibration] the field target is missing"))
      << machine;
  std::istringstream rows(csv_header() + "\r\nx,5\r\n");
  const std::string row = error_of(import_csv(store, rows, "bad.csv"));
  EXPECT_TRUE(holds(row, "row 3 is refused: [record] the row has 2 cells")) << row;
  std::istringstream results("{\"results\": [{}]}");
  const std::string result = error_of(import_t4(store, results, "bad.json"));
  EXPECT_TRUE(holds(result, "result 1 is refused: [record] a result without")) << result;
}

TEST(Transfer, APipeIsReadOnce) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string line = to_json(sample_record(0)) + "\n";
  ASSERT_EQ(write(ends[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
  close(ends[1]);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_TRUE(check_importable(path));
  EXPECT_EQ(import_jsonl(store, path).value(), (AppendSummary{1, 0, 0}));
  close(ends[0]);
}

TEST_P(AnyTransfer, TheQuarantineIsListedAndDropped) {
  Store store = open_store(databases / "a.db");
  std::istringstream in("first\n" + to_json(sample_record(0)) + "\n{\"record\": 2}\n");
  ASSERT_EQ(import_jsonl(store, in, "lines").value(), (AppendSummary{1, 0, 2}));
  EXPECT_EQ(verify(store).value().quarantined, 2);
  EXPECT_TRUE(verify(store).value().ok());
  const auto lines = db::quarantined(store, 0).value();
  ASSERT_EQ(lines.size(), 2u);
  for (const Quarantined& line : lines) {
    EXPECT_TRUE(line.line == "first" || line.line == "{\"record\": 2}") << line.line;
    EXPECT_FALSE(line.reason.empty());
  }
  EXPECT_EQ(db::quarantined(store, 1).value().size(), 1u);
  EXPECT_EQ(drop_quarantined(store).value(), 2);
  EXPECT_TRUE(db::quarantined(store, 0).value().empty());
  EXPECT_EQ(hashes_in(store), hashes_of({sample_record(0)}));
}

TEST(Transfer, WhatIsBeyondRecoveryDoesNotAdviseIt) {
  const Folder folder;
  write_bytes(folder / "noise.db", std::string(9999, 'x'));
  const std::string message = error_of(recover(folder / "noise.db", folder / "new.db"));
  EXPECT_NE(message.find("nothing can be saved"), std::string::npos);
  EXPECT_EQ(message.find("db recover"), std::string::npos);
}

TEST_P(AnyTransfer, Fault28_PoisonedImportsAreQuarantinedAndNeverBest) {
  const Record honest = sample_record(0);
  std::string lines = to_json(honest) + '\n';
  for (const double latency : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), 1e-3}) {
    Record poison = sample_record(1);
    poison.latency_ns = poison.latency_low_ns = poison.latency_high_ns = latency;
    lines += to_json(seal(poison)) + '\n';
  }
  std::istringstream in(lines);
  Store store = open_store(databases / "a.db");
  EXPECT_EQ(import_jsonl(store, in, "lines").value(), (AppendSummary{1, 0, 4}));
  EXPECT_EQ(store.best(key_of(honest)).value(), honest);
}

TEST_P(AnyTransfer, ADatabaseIsCopiedWhileItIsOpen) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(store.append(sample_records(0, 50)));
  ASSERT_TRUE(export_to(store, files / "copy.db"));
  Store copy = open_store(files / "copy.db", OpenMode::ReadOnly);
  EXPECT_TRUE(verify(copy).value().ok());
  EXPECT_EQ(copy.query({}).value(), store.query({}).value());
}

TEST(Transfer, ExportOverwritesNothing) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  write_bytes(folder / "mine.db", "precious");
  EXPECT_EQ(export_to(store, folder / "mine.db").error().code, ErrorCode::Database);
  EXPECT_EQ(export_to(store, folder / "a.db").error().code, ErrorCode::Database);
  EXPECT_EQ(export_to(store, folder / "x.txt").error().code, ErrorCode::Usage);
  EXPECT_EQ(read_bytes(folder / "mine.db"), "precious");
}

TEST(Transfer, AMissingImportIsAnError) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  EXPECT_EQ(import_jsonl(store, folder / "absent.jsonl").error().code, ErrorCode::Database);
}

}  // namespace
}  // namespace tw::db
