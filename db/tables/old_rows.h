// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: reads records from the table `trials` of schema versions 1 to 3, in which each
// field is a column. Migration and recovery of such databases use these functions.

#include <string>
#include <vector>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/record.h"

namespace tw::db {

/// The last schema version in which each field is a column.
inline constexpr int last_old_version = 3;

/// Returns the definitions, for ALTER TABLE, of the columns that schema version `version` added.
/// Requires: `version` is 2 or 3.
std::vector<std::string> columns_added_by(int version, const Dialect& dialect);

/// Returns a SELECT of the rows of `table`, which has the columns of the given schema version. A
/// condition may be appended. old_record_of() reads the rows of the result.
std::string select_old_trials_sql(std::string_view table, int version);
/// Returns the record of a row; an error if the record does not agree with its hash.
Result<Record> old_record_of(const Row& row, int version);
/// Returns the number (seq) of the row.
int64_t old_seq_of(const Row& row);

}  // namespace tw::db
