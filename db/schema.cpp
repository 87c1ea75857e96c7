// SPDX-License-Identifier: Apache-2.0
#include "db/schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>

#include "db/best.h"
#include "db/rows.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

constexpr int64_t application_id = 0x54574442;  // "TWDB"

std::vector<std::pair<std::string, std::string>> objects() {
  return {
      {"trials", create_trials_sql()},
      {"trials_group",
       "CREATE INDEX trials_group ON trials(workload_hash, target, threads, codegen_abi, device, "
       "layouts)"},
      {"trials_op", "CREATE INDEX trials_op ON trials(op, target)"},
      {"best",
       "CREATE TABLE best(workload_hash BLOB NOT NULL, target TEXT NOT NULL, threads INTEGER NOT "
       "NULL, "
       "codegen_abi INTEGER NOT NULL, device TEXT NOT NULL, layouts TEXT NOT NULL, "
       "trial INTEGER NOT NULL, latency_ns REAL NOT NULL, efficiency REAL NOT NULL, "
       "PRIMARY KEY(workload_hash, target, threads, codegen_abi, device, layouts)) "
       "STRICT, WITHOUT ROWID"},
      {"quarantine",
       "CREATE TABLE quarantine(hash BLOB NOT NULL PRIMARY KEY, reason TEXT NOT NULL, "
       "line TEXT NOT NULL) STRICT, WITHOUT ROWID"},
      {"calibrations", create_calibrations_sql()},
  };
}

/// The table of calibrations, and two more fields of records, empty in those that are there.
Status from_1_to_2(Connection& connection) {
  for (const std::string& column : columns_of_version_2())
    TW_RETURN_IF_ERROR(connection.execute("ALTER TABLE trials ADD COLUMN " + column));
  return connection.execute(create_calibrations_sql());
}

/// Two more fields of records, 0 in those that are there; the best ones follow another rule.
Status from_2_to_3(Connection& connection) {
  for (const std::string& column : columns_of_version_3())
    TW_RETURN_IF_ERROR(connection.execute("ALTER TABLE trials ADD COLUMN " + column));
  return refresh_all_best(connection);
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

Status set_version(Connection& connection, int64_t version) {
  return connection.execute(fmt::format("PRAGMA user_version={}", version));
}

const Migration* step_from(std::span<const Migration> steps, int64_t version) {
  for (const Migration& step : steps)
    if (step.from == version) return &step;
  return nullptr;
}

// The page by page copy of SQLite's backup interface, which sees one committed state.
Status copy_pages(Connection& from, Connection& to) {
  sqlite3_backup* backup = sqlite3_backup_init(to.handle(), "main", from.handle(), "main");
  if (backup) sqlite3_backup_step(backup, -1);
  const int code = backup ? sqlite3_backup_finish(backup) : sqlite3_errcode(to.handle());
  if (code == SQLITE_OK) return {};
  return tl::unexpected(database_error("export", to.path(), code, sqlite3_errmsg(to.handle())));
}

}  // namespace

Status create_schema(Connection& connection) {
  TW_TRY(Transaction transaction, Transaction::begin(connection));
  for (const auto& [name, sql] : objects()) TW_RETURN_IF_ERROR(connection.execute(sql));
  TW_RETURN_IF_ERROR(connection.execute(fmt::format("PRAGMA application_id={}", application_id)));
  TW_RETURN_IF_ERROR(set_version(connection, schema_version));
  return transaction.commit();
}

Result<int64_t> version_of(Connection& connection) {
  TW_TRY(const int64_t application, connection.integer("PRAGMA application_id"));
  if (application != application_id) return tl::unexpected(foreign(connection.path()));
  return connection.integer("PRAGMA user_version");
}

Status check_objects(Connection& connection) {
  std::map<std::string, std::string> expected;
  for (const auto& [name, sql] : objects()) expected[name] = sql;
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
  static const std::vector<Migration> steps = {{1, from_1_to_2}, {2, from_2_to_3}};
  return steps;
}

Status migrate(Connection& connection, std::span<const Migration> steps, int64_t to) {
  TW_TRY(const int64_t from, connection.integer("PRAGMA user_version"));
  const std::string backup = fmt::format("{}.v{}.backup", connection.path(), from);
  if (!fs::exists(backup)) TW_RETURN_IF_ERROR(back_up(connection, backup));
  TW_TRY(Transaction transaction, Transaction::begin(connection));
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
  TW_RETURN_IF_ERROR(set_version(connection, to));
  return transaction.commit();
}

Status back_up(Connection& from, const std::string& target) {
  const std::string part = target + ".part";
  std::error_code ignored;
  fs::remove(part, ignored);
  {
    TW_TRY(Connection to, Connection::open(part, {.create = true}));
    TW_RETURN_IF_ERROR(copy_pages(from, to));
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
