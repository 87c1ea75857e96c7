// SPDX-License-Identifier: Apache-2.0
#include "db/rows.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <vector>

namespace tw::db {
namespace {

static_assert(std::endian::native == std::endian::little, "samples are little-endian doubles");

std::string_view sql_type(const Dialect& d, const std::string&) { return d.text; }
std::string_view sql_type(const Dialect& d, int64_t) { return d.integer; }
std::string_view sql_type(const Dialect& d, double) { return d.real; }
std::string_view sql_type(const Dialect& d, TrialStatus) { return d.text; }
std::string_view sql_type(const Dialect& d, const std::vector<double>&) { return d.blob; }

void bind(Statement& to, const std::string& value) { to.bind(std::string_view(value)); }
void bind(Statement& to, int64_t value) { to.bind(value); }
void bind(Statement& to, double value) { to.bind(value); }
void bind(Statement& to, TrialStatus value) { to.bind(to_string(value)); }
void bind(Statement& to, const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  to.bind_blob(bytes);
}

// Each says whether the column could be read as what it should be.
bool read(const Row& row, int column, std::string& out) {
  out = row.text(column);
  return true;
}
bool read(const Row& row, int column, int64_t& out) {
  out = row.integer(column);
  return true;
}
bool read(const Row& row, int column, double& out) {
  out = row.real(column);
  return true;
}
bool read(const Row& row, int column, TrialStatus& out) {
  const auto status = parse_trial_status(row.text(column));
  if (status) out = *status;
  return status.has_value();
}
bool read(const Row& row, int column, std::vector<double>& out) {
  const std::string_view bytes = row.blob(column);
  out.resize(bytes.size() / sizeof(double));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(double));
  return bytes.size() % sizeof(double) == 0;
}

std::string field_list(int version) {
  std::string list;
  Record record;
  visit_fields(
      record, [&](const char* name, auto&) { list += std::string(", ") + name; }, version);
  return list;
}

/// The value of each hex digit.
constexpr std::array<unsigned char, 256> make_digits() {
  std::array<unsigned char, 256> values = {};
  for (unsigned char value = 0; value < 16; ++value) {
    values[static_cast<unsigned char>("0123456789abcdef"[value])] = value;
    values[static_cast<unsigned char>("0123456789ABCDEF"[value])] = value;
  }
  return values;
}

int digit(char hex) {
  static constexpr std::array<unsigned char, 256> values = make_digits();
  return values[static_cast<unsigned char>(hex)];
}

}  // namespace

std::string bytes_of_hex(std::string_view hex) {
  std::string bytes(hex.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
  return bytes;
}

std::string hex_of_bytes(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string hex(2 * bytes.size(), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    hex[2 * i] = digits[static_cast<unsigned char>(bytes[i]) >> 4];
    hex[2 * i + 1] = digits[bytes[i] & 15];
  }
  return hex;
}

std::string create_trials_sql(const Dialect& d) {
  std::string sql = fmt::format(
      "CREATE TABLE trials(seq {0}, hash {1} NOT NULL UNIQUE, workload_hash {1} NOT NULL, "
      "schedule_hash {1} NOT NULL",
      d.row_number, d.blob);
  Record record;
  visit_fields(
      record,
      [&](const char* name, auto& member) {
        sql += fmt::format(", {} {} NOT NULL", name, sql_type(d, member));
      },
      1);
  for (const std::string& column : columns_of_version_2(d)) sql += ", " + column;
  for (const std::string& column : columns_of_version_3(d)) sql += ", " + column;
  return fmt::format("{}){}", sql, d.table_end);
}

std::vector<std::string> columns_of_version_2(const Dialect& d) {
  return {fmt::format("machine {} NOT NULL DEFAULT ''", d.text),
          fmt::format("configuration {} NOT NULL DEFAULT ''", d.text)};
}

std::vector<std::string> columns_of_version_3(const Dialect& d) {
  return {fmt::format("bytes {} NOT NULL DEFAULT 0", d.real),
          fmt::format("peak_gb_per_s {} NOT NULL DEFAULT 0", d.real)};
}

std::string record_columns() {
  return "hash, workload_hash, schedule_hash" + field_list(record_version);
}

std::string insert_trial_sql() {
  std::string marks = "?, ?, ?";
  Record record;
  visit_fields(record, [&](const char*, auto&) { marks += ", ?"; });
  return fmt::format("INSERT INTO trials({}) VALUES({}) ON CONFLICT(hash) DO NOTHING",
                     record_columns(), marks);
}

void bind_record(Statement& statement, const Record& record) {
  statement.bind_blob(bytes_of_hex(record.hash));
  statement.bind_blob(bytes_of_hex(record.workload_hash));
  statement.bind_blob(bytes_of_hex(record.schedule_hash));
  visit_fields(record, [&](const char*, const auto& member) { bind(statement, member); });
}

const std::string& select_trial_sql(int version) {
  static const std::vector<std::string> of_versions = [] {
    std::vector<std::string> all;
    for (int of = 1; of <= record_version; ++of)
      all.push_back(fmt::format(
          "SELECT hash, workload_hash, schedule_hash{} FROM trials WHERE seq = ?", field_list(of)));
    return all;
  }();
  return of_versions.at(static_cast<size_t>(version) - 1);
}

namespace {

// The columns of select_trial_sql() before those of the fields.
constexpr int hash_columns = 3;

/// True where the status of the row is unknown to this program.
bool has_unknown_status(const Row& row) {
  int column = hash_columns, status = -1;
  Record record;
  visit_fields(record, [&](std::string_view name, auto&) {
    if (name == "status") status = column;
    ++column;
  });
  const std::string text = row.text(status);
  return !text.empty() && !parse_trial_status(text);
}

}  // namespace

Result<Record> record_of(const Row& row, int version) {
  Record record;
  record.hash = hex_of_bytes(row.blob(0));
  record.workload_hash = hex_of_bytes(row.blob(1));
  record.schedule_hash = hex_of_bytes(row.blob(2));
  int column = hash_columns;
  bool readable = true;
  visit_fields(
      record, [&](const char*, auto& member) { readable &= read(row, column++, member); }, version);
  if (!readable && has_unknown_status(row))
    return fail(ErrorCode::Unsupported, "[record] its status is one of a newer program");
  if (!readable) return fail(ErrorCode::Database, "[record] a column holds another kind of value");
  TW_RETURN_IF_ERROR(check(record));
  return record;
}

std::string create_calibrations_sql(const Dialect& d) {
  return fmt::format(
      "CREATE TABLE calibrations(target {0} NOT NULL, device {0} NOT NULL, hash {1} NOT NULL, "
      "machine {0} NOT NULL, program_version {0} NOT NULL, generation {2} NOT NULL, "
      "created_ms {2} NOT NULL, PRIMARY KEY({3})){4}",
      d.text, d.blob, d.integer, d.calibration_key, d.keyed_table_end);
}

std::string insert_calibration_sql() {
  return "INSERT INTO calibrations VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
}

void bind_calibration(Statement& statement, const Calibration& calibration) {
  statement.bind(std::string_view(calibration.target)).bind(std::string_view(calibration.device));
  statement.bind_blob(bytes_of_hex(calibration.hash)).bind(std::string_view(calibration.machine));
  statement.bind(std::string_view(calibration.program_version));
  statement.bind(calibration.generation).bind(calibration.created_ms);
}

std::string select_calibrations_sql() {
  return "SELECT target, device, hash, machine, program_version, generation, created_ms FROM "
         "calibrations";
}

Result<Calibration> calibration_of(const Row& row) {
  Calibration calibration{row.text(0),
                          row.text(1),
                          row.text(3),
                          row.text(4),
                          row.integer(5),
                          row.integer(6),
                          hex_of_bytes(row.blob(2))};
  TW_RETURN_IF_ERROR(check(calibration));
  return calibration;
}

}  // namespace tw::db
