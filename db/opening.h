// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: what happens to a name before it is a store: a file is created whole where it is
// absent, refused with a reason where it cannot be read or written safely, and brought up to date
// where it is older; tables on a server likewise.

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "db/engine/gate.h"
#include "db/engine/sqlite_connection.h"
#include "db/engine/statement.h"
#include "db/store.h"

namespace tw::db {

/// The path that SQLite, the gate and the spool agree on: absolute, links resolved. An address of a
/// server stays as it is; Usage where it is malformed or holds a password.
Result<std::string> canonical_path(const std::string& path);

struct Opened {
  std::unique_ptr<Connection> connection;
  std::optional<Gate> gate = {};     ///< of a file that was opened for writing
  SqliteConnection* file = nullptr;  ///< the same connection, or null for a server
};

/// `canonical` is a path or an address as canonical_path() gives them.
Result<Opened> open_canonical(const std::string& canonical, OpenMode mode,
                              const StoreOptions& options);

}  // namespace tw::db
