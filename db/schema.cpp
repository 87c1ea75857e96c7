// SPDX-License-Identifier: Apache-2.0
#include "db/schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>

#include "db/best.h"
#include "db/rows.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

/// Names of tables and indexes, and the SQL that creates them.
std::vector<std::pair<std::string, std::string>> objects(const Dialect& d) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"trials", create_trials_sql(d)},
      {"trials_group", fmt::format("CREATE INDEX trials_group ON trials({})", d.group_columns)},
      {"trials_op", fmt::format("CREATE INDEX trials_op ON trials{}", d.op_index)},
      {"best",
       fmt::format("CREATE TABLE best(workload_hash {0} NOT NULL, target {1} NOT NULL, threads {2} "
                   "NOT NULL, codegen_abi {2} NOT NULL, device {1} NOT NULL, layouts {1} NOT NULL, "
                   "trial {2} NOT NULL, latency_ns {3} NOT NULL, efficiency {3} NOT NULL{4}){5}",
                   d.blob, d.text, d.integer, d.real, d.best_key, d.keyed_table_end)},
      {"quarantine",
       fmt::format("CREATE TABLE quarantine(hash {0} NOT NULL PRIMARY KEY, reason {1} NOT NULL, "
                   "line {1} NOT NULL){2}",
                   d.blob, d.any_text, d.keyed_table_end)},
      {"calibrations", create_calibrations_sql(d)},
  };
  if (!d.best_index.empty())
    all.emplace_back("best_group",
                     fmt::format("CREATE INDEX best_group ON best({})", d.best_index));
  return all;
}

/// The table of calibrations, and two more fields of records, empty in those that are there.
Status from_1_to_2(Connection& connection) {
  for (const std::string& column : columns_of_version_2(connection.dialect()))
    TW_RETURN_IF_ERROR(connection.execute("ALTER TABLE trials ADD COLUMN " + column));
  return connection.execute(create_calibrations_sql(connection.dialect()));
}

/// Two more fields of records, 0 in those that are there; the best ones follow another rule.
Status from_2_to_3(Connection& connection) {
  for (const std::string& column : columns_of_version_3(connection.dialect()))
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

const Migration* step_from(std::span<const Migration> steps, int64_t version) {
  for (const Migration& step : steps)
    if (step.from == version) return &step;
  return nullptr;
}

}  // namespace

Status create_objects(Connection& connection) {
  // First, as a server makes the schema for the tables with it.
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
  static const std::vector<Migration> steps = {{1, from_1_to_2}, {2, from_2_to_3}};
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
  const std::string backup = fmt::format("{}.v{}.backup", connection.path(), from);
  if (!fs::exists(backup)) TW_RETURN_IF_ERROR(back_up(connection, backup));
  TW_TRY(Transaction transaction, Transaction::begin(connection));
  TW_RETURN_IF_ERROR(apply_steps(connection, steps, to));
  return transaction.commit();
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
