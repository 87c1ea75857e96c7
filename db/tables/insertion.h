// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: inserting records.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/record.h"

namespace tw::db {

/// Stores those records whose hashes are not in the database, and updates all rows that are derived
/// from trials. Returns the number of records that were stored. Requires: the records passed
/// check(); a write transaction.
Result<int64_t> insert_records(Connection& connection, std::span<const Record> records);

}  // namespace tw::db
