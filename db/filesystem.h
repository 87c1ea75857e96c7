// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which file systems a database may be written on: locks on network and FUSE file systems do not
// hold between machines, or at all. Thread-safe.

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace tw::db {

/// The f_type of statfs(2) for a directory; passed in so that a test can stand on any file system.
using FilesystemProbe = std::function<Result<int64_t>(const std::string& directory)>;

Result<int64_t> filesystem_type(const std::string& directory);

/// The name of a file system whose locks cannot be relied on; empty for all others.
std::string unsafe_filesystem(int64_t type);

/// What a person should know about this SQLite (sqlite3_libversion_number): why WAL is never used.
std::string describe_sqlite(int64_t version_number);
bool has_wal_reset_bug(int64_t version_number);
int64_t sqlite_version_number();

}  // namespace tw::db
