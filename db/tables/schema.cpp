// SPDX-License-Identifier: Apache-2.0
#include "db/tables/schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>

#include "db/tables/best.h"
#include "db/tables/demand_tables.h"
#include "db/tables/groups.h"
#include "db/tables/insertion.h"
#include "db/tables/old_rows.h"
#include "db/tables/quarantine.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

/// Names of tables and indexes, and the SQL that creates them.
using Objects = std::vector<std::pair<std::string, std::string>>;

/// Returns the tables and indexes of trials, and of everything that is derived from trials.
Objects trial_objects(const Dialect& d) {
  Objects all = {
      {"trials", create_trials_sql(d)},
      {"trials_schedule",
       "CREATE INDEX trials_schedule ON trials(group_id, schedule, session_id, status)"},
      {"trials_cost",
       "CREATE INDEX trials_cost ON trials(group_id, cost, peak_gflops, session_id, schedule) "
       "WHERE cost > 0"},
      {"best", create_best_sql(d)},
  };
  std::ranges::move(group_objects(d), std::back_inserter(all));
  return all;
}

/// Returns the tables of demands and claims, which runs share.
Objects run_objects(const Dialect& d) {
  Objects all = demand_objects(d);
  std::ranges::move(claim_objects(d), std::back_inserter(all));
  return all;
}

Objects objects(const Dialect& d) {
  Objects all = trial_objects(d);
  std::ranges::move(run_objects(d), std::back_inserter(all));
  all.emplace_back("quarantine",
                   fmt::format("CREATE TABLE quarantine(hash {0} NOT NULL PRIMARY KEY, reason {1} "
                               "NOT NULL, line {1} NOT NULL){2}",
                               d.blob, d.any_text, d.keyed_table_end));
  all.emplace_back("calibrations", create_calibrations_sql(d));
  return all;
}

Status add_columns(Connection& connection, int version) {
  for (const std::string& column : columns_added_by(version, connection.dialect()))
    TW_RETURN_IF_ERROR(connection.execute("ALTER TABLE trials ADD COLUMN " + column));
  return {};
}

/// Migrates to version 2, which adds calibrations and two fields of records. The fields are empty
/// in existing records.
Status from_1_to_2(Connection& connection) {
  TW_RETURN_IF_ERROR(add_columns(connection, 2));
  return connection.execute(create_calibrations_sql(connection.dialect()));
}

/// Migrates to version 3, which adds two fields of records. They are 0 in existing records.
Status from_2_to_3(Connection& connection) { return add_columns(connection, 3); }

constexpr int64_t rows_together = 512;

/// Reads at most rows_together rows after row number `seq`, and sets `seq` to the number of the
/// last row that was read. A row that does not agree with its hash is added to `damaged`.
Result<std::vector<Record>> next_old_records(Connection& connection, int64_t& seq,
                                             std::vector<Quarantined>& damaged) {
  TW_TRY(Statement select,
         Statement::prepare(
             connection,
             fmt::format("{} WHERE seq > ? ORDER BY seq LIMIT {}",
                         select_old_trials_sql("old_trials", last_old_version), rows_together)));
  std::vector<Record> records;
  TW_RETURN_IF_ERROR(select.bind(seq).each([&](const Row& row) {
    seq = old_seq_of(row);
    if (Result<Record> record = old_record_of(row, last_old_version))
      records.push_back(std::move(*record));
    else
      damaged.push_back({fmt::format("trial {} of schema version {}", seq, last_old_version),
                         record.error().message});
    return true;
  }));
  return records;
}

/// Migrates to version 4, in which a row holds a complete record with packed texts, and tables of
/// groups and sessions serve the rule of the best trial. A row that does not agree with its hash is
/// quarantined.
Status from_3_to_4(Connection& connection) {
  TW_RETURN_IF_ERROR(connection.execute(
      "DROP TABLE best; DROP INDEX trials_group; DROP INDEX trials_op; ALTER TABLE trials RENAME "
      "TO old_trials"));
  for (const auto& [name, sql] : trial_objects(connection.dialect()))
    TW_RETURN_IF_ERROR(connection.execute(sql));
  std::vector<Quarantined> damaged;
  for (int64_t seq = 0, last = 0;;) {
    const int64_t before = seq;
    TW_TRY(const std::vector<Record> records, next_old_records(connection, seq, damaged));
    if (seq == before) break;
    TW_TRY(const int64_t inserted, insert_records_after(connection, last, records));
    last += inserted;
  }
  TW_RETURN_IF_ERROR(add_quarantined(connection, damaged));
  return connection.execute("DROP TABLE old_trials");
}

/// Migrates to version 5, which adds the tables of demands and of claims, and a wider index by
/// which groups are listed. A file of version 4 has a narrower index with the same name. A file
/// that is migrated from an older version has the wider index already.
Status from_4_to_5(Connection& connection) {
  TW_RETURN_IF_ERROR(connection.execute("DROP INDEX groups_last"));
  TW_RETURN_IF_ERROR(connection.execute(create_groups_last_sql(connection.dialect())));
  for (const auto& [name, sql] : run_objects(connection.dialect()))
    TW_RETURN_IF_ERROR(connection.execute(sql));
  return {};
}

Error foreign(const std::string& path) {
  return {
      ErrorCode::Database,
      fmt::format("[open] {} is a database of another program; a database written by tilewright "
                  "was expected; name another with --db",
                  path)};
}

Error altered(const std::string& path, std::string_view what) {
  return {
      ErrorCode::Database,
      fmt::format("[open] {} {}; a database written by tilewright was expected; name another with "
                  "--db, or take its records over with `tilewright db recover FILE NEW`",
                  path, what)};
}

/// Returns the first of the paths NAME.vN.backup, NAME.vN.backup.2 and so on that does not exist.
/// Existing backups may be of another state of the file, or of another file that had its name.
std::string free_backup_path(const std::string& path, int64_t version) {
  const std::string first = fmt::format("{}.v{}.backup", path, version);
  std::string backup = first;
  for (int number = 2; fs::exists(backup); ++number) backup = fmt::format("{}.{}", first, number);
  return backup;
}

const Migration* step_from(std::span<const Migration> steps, int64_t version) {
  for (const Migration& step : steps)
    if (step.from == version) return &step;
  return nullptr;
}

}  // namespace

Status create_objects(Connection& connection) {
  // This comes first because on a server it also creates the PostgreSQL schema that holds the
  // tables.
  TW_RETURN_IF_ERROR(connection.set_schema_version(schema_version));
  for (const auto& [name, sql] : objects(connection.dialect()))
    TW_RETURN_IF_ERROR(connection.execute(sql));
  return {};
}

Status create_schema(Connection& connection) {
  TW_TRY(Transaction transaction, Transaction::begin(connection));
  TW_RETURN_IF_ERROR(create_objects(connection));
  return transaction.commit();
}

Result<int64_t> version_of(Connection& connection) {
  TW_TRY(const std::optional<int64_t> version, connection.schema_version());
  if (!version) return tl::unexpected(foreign(connection.path()));
  return *version;
}

Status check_objects(SqliteConnection& connection) {
  std::map<std::string, std::string> expected;
  for (const auto& [name, sql] : objects(connection.dialect())) expected[name] = sql;
  TW_TRY(Statement statement,
         Statement::prepare(connection, "SELECT type, name, sql FROM sqlite_schema"));
  std::string problem;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    const std::string type = row.text(0), name = row.text(1);
    const bool internal = name.starts_with("sqlite_") && (type == "table" || type == "index");
    const auto known = expected.find(name);
    if (known != expected.end() && known->second == row.text(2))
      expected.erase(known);
    else if (!internal)
      problem = fmt::format("holds the {} {:.64}, which is not ours", type, name);
    return problem.empty();
  }));
  if (problem.empty() && !expected.empty())
    problem = fmt::format("lacks {}", expected.begin()->first);
  if (problem.empty()) return {};
  return tl::unexpected(altered(connection.path(), problem));
}

std::span<const Migration> known_migrations() {
  static const std::vector<Migration> steps = {
      {1, from_1_to_2}, {2, from_2_to_3}, {3, from_3_to_4}, {4, from_4_to_5}};
  return steps;
}

Status apply_steps(Connection& connection, std::span<const Migration> steps, int64_t to) {
  TW_TRY(const int64_t from, version_of(connection));
  for (int64_t version = from; version < to; ++version) {
    const Migration* step = step_from(steps, version);
    if (!step)
      return fail(
          ErrorCode::Database,
          fmt::format("[upgrade] {} has schema version {}, which this program cannot bring to "
                      "{}; export it with the program that wrote it, then import that",
                      connection.path(), version, to));
    TW_RETURN_IF_ERROR(step->apply(connection));
  }
  return connection.set_schema_version(to);
}

Status migrate(SqliteConnection& connection, std::span<const Migration> steps, int64_t to) {
  TW_TRY(const int64_t from, version_of(connection));
  const std::string backup = free_backup_path(connection.path(), from);
  TW_RETURN_IF_ERROR(back_up(connection, backup));
  Result<Transaction> transaction = Transaction::begin(connection);
  Status applied = transaction ? apply_steps(connection, steps, to)
                               : Status(tl::unexpected(transaction.error()));
  if (applied) return transaction->commit();
  connection.roll_back();
  // The file is as it was, so no backup is needed. If the copy stayed, each further attempt would
  // leave one more.
  std::error_code ignored;
  fs::remove(backup, ignored);
  return applied;
}

Status back_up(SqliteConnection& from, const std::string& target) {
  const std::string part = target + ".part";
  std::error_code ignored;
  fs::remove(part, ignored);
  {
    TW_TRY(const auto to, SqliteConnection::open(part, {.create = true}));
    TW_RETURN_IF_ERROR(from.copy_pages(*to));
  }
  std::error_code error;
  fs::rename(part, target, error);
  if (error)
    return fail(ErrorCode::Database,
                fmt::format("[export] {} cannot be written ({}); choose another "
                            "path",
                            target, error.message()));
  sync_directory_of(target);
  return {};
}

void sync_directory_of(const std::string& path) {
  const std::string directory = fs::path(path).parent_path();
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace tw::db
