// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: opens the database that a name means. A file that is absent is created as a
// complete database. A file that cannot be read or written safely is refused with a reason. A file
// of an older schema version is migrated. Tables on a server are treated in the same way.

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "db/engine/gate.h"
#include "db/engine/sqlite_connection.h"
#include "db/engine/statement.h"
#include "db/store.h"

namespace tw::db {

/// The absolute path without symbolic links, by which SQLite, the gate and the spool know the file.
/// The address of a server is returned unchanged; Usage if it is malformed or holds a password.
Result<std::string> canonical_path(const std::string& path);

struct Opened {
  std::unique_ptr<Connection> connection;
  std::optional<Gate> gate = {};     ///< present for a file that was opened for writing
  SqliteConnection* file = nullptr;  ///< `connection` as its type for files; null for a server
};

/// Opens the database. `canonical` is a result of canonical_path().
Result<Opened> open_canonical(const std::string& canonical, OpenMode mode,
                              const StoreOptions& options);

}  // namespace tw::db
