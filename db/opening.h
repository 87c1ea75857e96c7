// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: what happens to a path before it is a store: created whole where it is absent,
// refused with a reason where it cannot be read or written safely, brought up to date where it is
// older.

#include <optional>
#include <string>

#include "base/result.h"
#include "db/gate.h"
#include "db/statement.h"
#include "db/store.h"

namespace tw::db {

/// The path that SQLite, the gate and the spool agree on: absolute, links resolved.
Result<std::string> canonical_path(const std::string& path);

struct OpenedFile {
  Connection connection;
  std::optional<Gate> gate;  ///< absent: opened for reading
};

Result<OpenedFile> open_file(const std::string& canonical, OpenMode mode,
                             const StoreOptions& options);

}  // namespace tw::db
