// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: how facts enter the tables.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/record.h"

namespace tw::db {

/// Stores the records whose hashes are not there, and brings up to date what follows from the
/// trials. Returns the number of records that were stored. Requires: the records passed check(), in
/// a transaction that writes.
Result<int64_t> insert_records(Connection& connection, std::span<const Record> records);

}  // namespace tw::db
