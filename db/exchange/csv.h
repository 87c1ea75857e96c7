// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records as rows of a table (RFC 4180), for spreadsheets and data frames. The columns are the
// fields of TW_RECORD_FIELDS, in that order, then `hash`. Samples are separated by spaces. A row
// holds all fields, so that reading it gives an equal record. Free functions; thread-safe.

#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

/// The first row, which has the names of the columns, with its line end.
std::string csv_header();
std::string to_csv(const Record& record);

/// Reads the next row: its cells and its text. Returns false at the end of the input. Quoted cells
/// may hold line feeds. A row that is longer than max_line_bytes gives no cells, and its text is
/// cut.
Result<bool> next_csv_row(std::istream& in, std::vector<std::string>& cells, std::string& text);

/// The record of a row whose columns have these names. Columns of later record versions may be
/// absent. Invalid if the row is no record. The hash is taken from the row and not checked: call
/// check().
Result<Record> from_csv(const std::vector<std::string>& names,
                        const std::vector<std::string>& cells);

}  // namespace tw::db
