// SPDX-License-Identifier: Apache-2.0
#pragma once
// Detects file systems on which a database should not be written. On network and FUSE file systems,
// locks are not respected by other machines, or by no process at all. Also describes the version of
// SQLite. Thread-safe.

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace tw::db {

/// A function that returns the f_type of statfs(2) for a directory. It is an option of a Store, so
/// that a test can simulate any file system.
using FilesystemProbe = std::function<Result<int64_t>(const std::string& directory)>;

Result<int64_t> filesystem_type(const std::string& directory);

/// Returns the name of a file system whose locks cannot be relied on, given its f_type; empty for
/// all other file systems.
std::string unsafe_filesystem(int64_t type);

/// Returns a text for people: SQLite's version, the journal mode that databases use and, if
/// has_wal_reset_bug(version_number), a mention of this bug. Databases never use WAL because of the
/// bug. `version_number` is a result of sqlite3_libversion_number().
std::string describe_sqlite(int64_t version_number);
bool has_wal_reset_bug(int64_t version_number);
int64_t sqlite_version_number();

}  // namespace tw::db
