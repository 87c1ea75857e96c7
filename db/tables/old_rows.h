// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: records as rows of the table `trials` of schema versions 1 to 3, where each field
// is a column. Migration and recovery of databases of these versions read rows by this header.

#include <string>
#include <vector>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/record.h"

namespace tw::db {

/// The last schema version with rows of this form.
inline constexpr int last_old_version = 3;

/// Definitions of the columns that a schema version added, for ALTER TABLE.
std::vector<std::string> columns_added_by(int version, const Dialect& dialect);

/// A SELECT of the rows of `table` with the columns of that schema version. A condition may be
/// appended. Its rows are read by old_record_of().
std::string select_old_trials_sql(std::string_view table, int version);
/// The record of a row; an error if it does not agree with its hash.
Result<Record> old_record_of(const Row& row, int version);
/// The number (seq) of the row.
int64_t old_seq_of(const Row& row);

}  // namespace tw::db
