// SPDX-License-Identifier: Apache-2.0
#pragma once
// Detects file systems on which a database should not be written: locks on network and FUSE file
// systems do not hold between machines, or not at all. Also describes the version of SQLite.
// Thread-safe.

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace tw::db {

/// Returns the f_type of statfs(2) for a directory. A parameter, so that a test can simulate any
/// file system.
using FilesystemProbe = std::function<Result<int64_t>(const std::string& directory)>;

Result<int64_t> filesystem_type(const std::string& directory);

/// The name of a file system whose locks cannot be relied on; empty for all others.
std::string unsafe_filesystem(int64_t type);

/// A text for people: SQLite's version, the journal mode that databases use and, if this version
/// has the bug of has_wal_reset_bug(), a mention of the bug, which is why WAL is never used.
/// `version_number` is a result of sqlite3_libversion_number().
std::string describe_sqlite(int64_t version_number);
bool has_wal_reset_bug(int64_t version_number);
int64_t sqlite_version_number();

}  // namespace tw::db
