// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: what a database holds, how it is recognised, and how an older one becomes a newer
// one. The tables and the steps between versions are the same in a file and on a server.

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

/// Makes the tables and indexes of this program's version. Requires: a write transaction in an
/// empty database.
Status create_objects(Connection& connection);

/// The same, in a transaction of its own.
Status create_schema(Connection& connection);

/// The schema version of a database of ours; an error for any other.
Result<int64_t> version_of(Connection& connection);

/// Ok if the file has exactly the tables and indexes of this program: a file from elsewhere may
/// have triggers and views that would run.
Status check_objects(SqliteConnection& connection);

/// A step that changes a database from schema version `from` to `from` + 1.
struct Migration {
  int64_t from;
  std::function<Status(Connection&)> apply;
};

/// The steps that this program knows, oldest first.
std::span<const Migration> known_migrations();

/// Brings the database from its version to version `to`. Requires: a write transaction.
Status apply_steps(Connection& connection, std::span<const Migration> steps, int64_t to);

/// Copies the file to NAME.vN.backup, then brings it to version `to` in one transaction: whenever
/// it is killed, the file has the old version or the new one. Requires: the writer gate is held.
Status migrate(SqliteConnection& connection, std::span<const Migration> steps, int64_t to);

/// A consistent copy, complete under its name or absent. Requires: `target` is free.
Status back_up(SqliteConnection& from, const std::string& target);

/// Makes a rename in the directory of `path` durable.
void sync_directory_of(const std::string& path);

}  // namespace tw::db
