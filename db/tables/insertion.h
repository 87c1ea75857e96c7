// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: inserts records and numbers their rows.

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

/// Does the same as insert_records(), but numbers the new rows from `last` + 1 on. Does not need
/// the table `claims`.
Result<int64_t> insert_records_after(Connection& connection, int64_t last,
                                     std::span<const Record> records);

/// Stores the highest number of a row of trials, so that later rows get higher numbers even if that
/// row is deleted. A run that shares the database asks for the rows after a number (news(),
/// claims.h), and would not see a row with a number that was used again. Call this function before
/// rows are deleted. Requires: a write transaction.
Status keep_highest_number(Connection& connection);

}  // namespace tw::db
