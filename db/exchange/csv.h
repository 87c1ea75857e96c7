// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records as rows of a table (RFC 4180), for spreadsheets and data frames. The columns are the
// fields of TW_RECORD_FIELDS by name, in that order, then `hash`; samples have spaces between them.
// A row holds all of its record, so that rows read back give the same record. Free functions;
// thread-safe.

#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

/// The names of the columns, with the end of the line.
std::string csv_header();
std::string to_csv(const Record& record);

/// The cells of the next row, and its text; false at the end. Quoted cells may hold line feeds. Of
/// a row that is longer than max_line_bytes the rest is left out, and it has no cells.
Result<bool> next_csv_row(std::istream& in, std::vector<std::string>& cells, std::string& text);

/// The record of a row under these names; its hash is as the row states it. Columns of later record
/// versions may be absent. Invalid for others. Does not check().
Result<Record> from_csv(const std::vector<std::string>& names,
                        const std::vector<std::string>& cells);

}  // namespace tw::db
