// SPDX-License-Identifier: Apache-2.0
// Fuzz target for lines of JSON and rows of CSV; the first byte says which. A hostile writer seals
// what it writes, but a mutation would hardly have a right hash. So each record that is read is
// sealed and then checked.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "db/calibration.h"
#include "db/exchange/csv.h"
#include "db/exchange/t4.h"
#include "db/record.h"
#include "tests/db/samples.h"
#include "tests/fuzz/promises.h"
#include "tests/fuzz/target.h"

namespace tw::fuzz {
namespace {

constexpr char json_lines = 'j', csv_rows = 'c';

std::vector<std::string> record_seeds() {
  db::Record rich = db::sample_record(3);
  rich.status = db::TrialStatus::CompileError;
  rich.reason = "a \"quoted\", line\nwith \xc3\xa9 and\ttabs";
  rich.layouts = "in=NCHW16c out=NHWC";
  rich.configuration = "out: cpu_tile";
  rich.bytes = 1e6;
  rich.peak_gb_per_s = 12.5;
  rich = db::seal(rich);
  const std::string lines = db::to_json(db::sample_record(1)) + "\n" + db::to_json(rich) + "\n" +
                            db::to_json(db::seal(db::sample_calibration())) + "\n";
  return {json_lines + db::to_json(rich), json_lines + lines,
          csv_rows + db::csv_header() + db::to_csv(db::sample_record(2)) + db::to_csv(rich)};
}

std::string csv_of(const db::Record& record) { return db::csv_header() + db::to_csv(record); }

db::Record csv_record(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> names, cells;
  std::string row;
  TW_CHECK(db::next_csv_row(in, names, row).value_or(false));
  TW_CHECK(db::next_csv_row(in, cells, row).value_or(false));
  const auto record = db::from_csv(names, cells);
  TW_CHECK(record.has_value(), "our own row must be read back");
  return *record;
}

/// Returns true if the record can be stored after its writer has sealed it. Also checks the error,
/// the conversions and the efficiency of the record.
bool check_record(db::Record record) {
  (void)db::to_json(record);  // also if it is no fact: quarantine keeps it as a line
  const Status as_given = db::check(record);
  if (!as_given) check_error(as_given.error());
  record = db::seal(std::move(record));
  if (const Status status = db::check(record); !status) return check_error(status.error()), false;
  const auto again = db::from_json(db::to_json(record));
  TW_CHECK(again && *again == record, "a fact must be read back from its line");
  TW_CHECK(csv_record(csv_of(record)) == record, "a fact must be read back from its row");
  TW_CHECK(nlohmann::json::accept(db::to_t4(record)), "T4 must be JSON");
  TW_CHECK(db::efficiency(record) >= 0);
  return true;
}

bool calibration_accepts(std::string_view line) {
  auto calibration = db::calibration_from_json(line);
  if (!calibration) return check_error(calibration.error()), false;
  *calibration = db::seal(std::move(*calibration));
  const auto status = db::check(*calibration);
  if (!status) return check_error(status.error()), false;
  const auto again = db::calibration_from_json(db::to_json(*calibration));
  TW_CHECK(again && *again == *calibration, "a calibration must be read back from its line");
  return true;
}

bool line_accepts(std::string_view line) {
  auto record = db::from_json(line);
  if (record) return check_record(std::move(*record));
  check_error(record.error());
  return calibration_accepts(line);
}

bool lines_accept(std::string_view text) {
  bool any = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    any |= line_accepts(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return any;
}

bool rows_accept(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> names, cells;
  std::string row;
  if (!db::next_csv_row(in, names, row).value_or(false)) return false;
  bool any = false;
  while (db::next_csv_row(in, cells, row).value_or(false)) {
    auto record = db::from_csv(names, cells);
    if (record)
      any |= check_record(std::move(*record));
    else
      check_error(record.error());
  }
  return any;
}

bool record_accepts(std::string_view input) {
  if (input.empty()) return false;
  return input[0] == csv_rows ? rows_accept(input.substr(1)) : lines_accept(input.substr(1));
}

}  // namespace

const Target record_target = {
    .name = "record",
    .summary = "records as lines of JSON and rows of CSV, and calibrations",
    .seeds = record_seeds,
    .accepts = record_accepts,
    .words = {"\"record\":3",
              "\"record\":1",
              "\"calibration\":1",
              "null",
              "true",
              "[[[[",
              "{",
              "}",
              "\"",
              "\\u0000",
              "\\ud800",
              "\\n",
              "\"\"",
              ",",
              "\n",
              "\r\n",
              "tw1",
              "ok",
              "duplicate",
              "wrong",
              "\"samples_ns\":[",
              "\xff",
              "\xc3",
              "hash",
              "1e999",
              "\"status\":\"unstable\""}};

}  // namespace tw::fuzz
