// SPDX-License-Identifier: Apache-2.0
#include "db/tables/rows.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/text.h"
#include "db/record_check.h"
#include "db/tables/texts.h"

namespace tw::db {
namespace {

static_assert(std::endian::native == std::endian::little, "samples are little-endian doubles");

constexpr char text_end = '\0';  // ends each text; no text of a record contains it

template <typename Member>
constexpr bool is_text = std::is_same_v<std::remove_cvref_t<Member>, std::string>;

/// Calls visit(name, member) for each field that has a column of its own.
template <typename AnyRecord, typename Visitor>
void visit_columns(AnyRecord& record, Visitor&& visit) {
  visit_fields(record, [&](const char* name, auto& member) {
    if constexpr (!is_text<decltype(member)>) visit(name, member);
  });
}

/// Calls visit(member) for each text.
template <typename AnyRecord, typename Visitor>
void visit_texts(AnyRecord& record, Visitor&& visit) {
  visit_fields(record, [&](const char*, auto& member) {
    if constexpr (is_text<decltype(member)>) visit(member);
  });
}

std::string_view sql_type(const Dialect& d, int64_t) { return d.integer; }
std::string_view sql_type(const Dialect& d, double) { return d.real; }
std::string_view sql_type(const Dialect& d, TrialStatus) { return d.text; }
std::string_view sql_type(const Dialect& d, const std::vector<double>&) { return d.blob; }

void bind(Statement& to, int64_t value) { to.bind(value); }
void bind(Statement& to, double value) { to.bind(value); }
void bind(Statement& to, TrialStatus value) { to.bind(to_string(value)); }
void bind(Statement& to, const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  to.bind_blob(bytes);
}

// The columns that a SELECT of records reads before the columns of the fields, and the index of the
// first field's column.
constexpr std::string_view read_first = "hash, texts, schedule, cost";
constexpr int first_field = 4;

std::string column_list() {
  std::string list;
  Record record;
  visit_columns(record, [&](const char* name, auto&) { list += std::string(", ") + name; });
  return list;
}

int column_count() {
  int count = 0;
  Record record;
  visit_columns(record, [&](const char*, auto&) { ++count; });
  return count;
}

/// True if this program does not know the status of the row.
bool has_unknown_status(const Row& row) {
  int column = first_field, status = -1;
  Record record;
  visit_columns(record, [&](std::string_view name, auto&) {
    if (name == "status") status = column;
    ++column;
  });
  const std::string text = row.text(status);
  return !text.empty() && !parse_trial_status(text);
}

}  // namespace

std::string schedule_key(const Record& record) {
  return bytes_of_hex(std::string_view(record.schedule_hash).substr(0, 2 * schedule_key_bytes));
}

double cost_of(const Record& record) {
  if (record.status != TrialStatus::Ok || !(record.latency_ns > 0)) return 0;
  return record.peak_gflops > 0 ? record.latency_ns * record.peak_gflops : record.latency_ns;
}

std::string create_trials_sql(const Dialect& d) {
  std::string sql = fmt::format(
      "CREATE TABLE trials(seq {0} PRIMARY KEY, hash {1} NOT NULL UNIQUE, group_id {2} NOT NULL, "
      "session_id "
      "{2} NOT NULL, schedule {1} NOT NULL, cost {3} NOT NULL",
      d.key_integer, d.blob, d.integer, d.real);
  Record record;
  visit_columns(record, [&](const char* name, auto& member) {
    sql += fmt::format(", {} {} NOT NULL", name, sql_type(d, member));
  });
  return fmt::format("{}, texts {} NOT NULL){}", sql, d.blob, d.table_end);
}

std::string record_columns() {
  return "seq, hash, group_id, session_id, schedule, cost" + column_list() + ", texts";
}

std::string insert_trial_sql() {
  std::string marks = "?, ?, ?, ?, ?, ?, ?";
  for (int column = column_count(); column > 0; --column) marks += ", ?";
  return fmt::format("INSERT INTO trials({}) VALUES({}) ON CONFLICT(hash) DO NOTHING",
                     record_columns(), marks);
}

void bind_record(Statement& statement, int64_t seq, const Record& record,
                 const Membership& membership) {
  statement.bind(seq).bind_blob(bytes_of_hex(record.hash));
  statement.bind(membership.group).bind(membership.session);
  statement.bind_blob(schedule_key(record)).bind(cost_of(record));
  visit_columns(record, [&](const char*, const auto& member) { bind(statement, member); });
  statement.bind_blob(packed_texts(record));
}

const std::string& select_trial_sql() {
  static const std::string sql = select_trials_sql() + " WHERE seq = ?";
  return sql;
}

const std::string& select_trials_sql() {
  static const std::string sql =
      fmt::format("SELECT {}{}, seq, group_id, session_id FROM trials", read_first, column_list());
  return sql;
}

RowNumber number_of(const Row& row) {
  static const int column = first_field + column_count();
  return {row.integer(column), row.integer(column + 1), row.integer(column + 2)};
}

bool agrees_with_columns(const Row& row, const Record& record) {
  return row.blob(2) == schedule_key(record) && row.real(3) == cost_of(record);
}

Result<Record> record_of(const Row& row) {
  Record record;
  int column = first_field;
  bool readable = true;
  visit_columns(record,
                [&](const char*, auto& member) { readable &= read_column(row, column++, member); });
  if (!readable && has_unknown_status(row))
    return fail(ErrorCode::Unsupported, "[record] its status is one of a newer program");
  if (!readable || !read_texts(row.blob(1), record))
    return fail(ErrorCode::Database, "[record] a column holds another kind of value");
  record = seal(std::move(record));
  if (bytes_of_hex(record.hash) != row.blob(0))
    return fail(ErrorCode::Database, "[record] it does not agree with its hash");
  TW_RETURN_IF_ERROR(check_facts(record));
  return record;
}

bool read_column(const Row& row, int column, std::string& out) {
  out = row.text(column);
  return true;
}
bool read_column(const Row& row, int column, int64_t& out) {
  out = row.integer(column);
  return true;
}
bool read_column(const Row& row, int column, double& out) {
  out = row.real(column);
  return true;
}
bool read_column(const Row& row, int column, TrialStatus& out) {
  const auto status = parse_trial_status(row.text(column));
  if (status) out = *status;
  return status.has_value();
}
bool read_column(const Row& row, int column, std::vector<double>& out) {
  const std::string_view bytes = row.blob(column);
  out.resize(bytes.size() / sizeof(double));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(double));
  return bytes.size() % sizeof(double) == 0;
}

std::string packed_texts(const Record& record) {
  std::string all;
  visit_texts(record, [&](const std::string& text) { (all += text) += text_end; });
  return packed(all);
}

bool read_texts(std::string_view blob, Record& record) {
  const std::optional<std::string> all = unpacked(blob);
  if (!all) return false;
  std::string_view rest = *all;
  visit_texts(record, [&](std::string& text) {
    const size_t end = rest.find(text_end);
    text = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  });
  return rest.empty();
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
