// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the schema of a database, the check that a file has this schema, and migration
// from older versions. Tables and migration steps are the same in a file and on a server.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/engine/sqlite_connection.h"
#include "db/engine/statement.h"

namespace tw::db {

inline constexpr int64_t schema_version = 5;

/// Creates the tables and indexes of schema_version. Requires: a write transaction in an empty
/// database.
Status create_objects(Connection& connection);

/// Does the same as create_objects(), in a transaction of its own, which it begins and commits.
Status create_schema(Connection& connection);

/// Returns the schema version of a Tilewright database; an error for any other database.
Result<int64_t> version_of(Connection& connection);

/// Ok if the file has exactly the tables and indexes of this program; otherwise an error. A file
/// from elsewhere might have triggers and views, and their SQL would run.
Status check_objects(SqliteConnection& connection);

/// A step that changes a database from schema version `from` to `from` + 1.
struct Migration {
  int64_t from;
  std::function<Status(Connection&)> apply;
};

/// Returns the migration steps of this program, in the order of schema versions, the oldest first.
std::span<const Migration> known_migrations();

/// Migrates the database from its version to version `to` by the given steps. Requires: a write
/// transaction.
Status apply_steps(Connection& connection, std::span<const Migration> steps, int64_t to);

/// Copies the file NAME to NAME.vN.backup, where N is its version, and then migrates it to version
/// `to` in one transaction. If the name of the backup is taken, the copy is NAME.vN.backup.2, or
/// has the next number that is free. If a step fails, the file is as it was, and the copy is
/// removed. If the process is killed, the file has either the old or the new version. Requires: the
/// writer gate is held.
Status migrate(SqliteConnection& connection, std::span<const Migration> steps, int64_t to);

/// Writes a consistent copy of a database to the new file `target`. If this fails, no file `target`
/// is left. Requires: no file `target` exists.
Status back_up(SqliteConnection& from, const std::string& target);

/// Syncs the directory that contains `path`, so that a rename of the file survives power loss.
void sync_directory_of(const std::string& path);

}  // namespace tw::db
