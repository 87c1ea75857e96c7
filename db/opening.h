// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: opens the database of a given path or server address. If the mode allows writing,
// an absent file is created as a complete database, and a file of an older schema version is
// migrated. A file that cannot be read or written safely is refused with a reason. Tables on a
// server are created, migrated and refused by the same rules.

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "db/engine/gate.h"
#include "db/engine/sqlite_connection.h"
#include "db/engine/statement.h"
#include "db/store.h"

namespace tw::db {

/// Returns the absolute path of a file without symbolic links. SQLite, the writer gate and the
/// spool use this path. The address of a server is returned unchanged. Fails with Usage if an
/// address is malformed or holds a password, and with Database if a path cannot be resolved or has
/// no file name.
Result<std::string> canonical_path(const std::string& path);

struct Opened {
  std::unique_ptr<Connection> connection;
  std::optional<Gate> gate = {};  ///< present for a file that was opened for writing
  /// `connection` with its derived type for files; null for a server
  SqliteConnection* file = nullptr;
};

/// Opens the database at `canonical`, a result of canonical_path().
Result<Opened> open_canonical(const std::string& canonical, OpenMode mode,
                              const StoreOptions& options);

}  // namespace tw::db
