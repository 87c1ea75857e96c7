// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records as rows of CSV (RFC 4180), for spreadsheets and data frames. The columns are the fields
// of TW_RECORD_FIELDS, in that order, then `hash`. The numbers of samples_ns are separated by
// spaces. A row holds all fields, so reading it gives an equal record. Free functions; thread-safe.

#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

/// Returns the first row, which has the names of the columns, with its line end.
std::string csv_header();
std::string to_csv(const Record& record);

/// Reads the next row. Sets `cells` to its cells and `text` to the whole row. Returns false at the
/// end of the input. Quoted cells may hold line feeds. If the row is longer than max_line_bytes,
/// `cells` is empty and `text` has only the beginning of the row.
Result<bool> next_csv_row(std::istream& in, std::vector<std::string>& cells, std::string& text);

/// Returns the record of a row whose columns have the names `names`. Fails with Invalid if the row
/// is not a record. Columns of record versions 2 and 3 may be absent. Takes the hash from the row
/// without checking it: call check() on the result.
Result<Record> from_csv(const std::vector<std::string>& names,
                        const std::vector<std::string>& cells);

}  // namespace tw::db
