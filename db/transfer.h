// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies records and calibrations between databases, and between databases and files. Like a Store,
// these functions are not thread-safe.

#include <iosfwd>
#include <string>
#include <string_view>

#include "base/result.h"
#include "db/store.h"

namespace tw::db {

/// The bytes with which the file of a database begins.
inline constexpr std::string_view database_magic = "SQLite format 3";

/// Adds the records and calibrations of another database to the store, except damaged ones. Merging
/// the same database again changes nothing.
Result<AppendSummary> merge_from(Store& store, const std::string& path);
Result<AppendSummary> merge_from(Store& store, Store& other);
/// Imports lines in the form in which export_jsonl() writes them. A bad line is quarantined, and
/// the other lines are stored. If none of the first 64 lines is a record or calibration, the input
/// is no export. Then the import fails with Invalid and stores nothing. `name` is the name of the
/// input in messages.
Result<AppendSummary> import_jsonl(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_jsonl(Store& store, const std::string& path);
/// Does the same as import_jsonl(), for the lines of a spool file. But stores the valid lines even
/// if the first 64 lines are all bad.
Result<AppendSummary> import_spooled(Store& store, std::istream& in);
/// Does the same as import_jsonl(), for rows in the form in which export_csv() writes them. The
/// first row has the names of the columns.
Result<AppendSummary> import_csv(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_csv(Store& store, const std::string& path);
/// Does the same as import_jsonl(), for a document of results in the form in which export_t4()
/// writes it.
Result<AppendSummary> import_t4(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_t4(Store& store, const std::string& path);
/// Writes all records as lines of JSON in Order::Created, and then all calibrations. Databases with
/// equal records and calibrations give equal bytes.
Status export_jsonl(Store& store, std::ostream& out);
/// Writes all records as rows of CSV with a column for each field (db/exchange/csv.h). Calibrations
/// are left out.
Status export_csv(Store& store, std::ostream& out);
/// Writes all records in T4, the format in which autotuners share results (db/exchange/t4.h).
Status export_t4(Store& store, std::ostream& out);
/// Writes a copy of the database to a new file. Other processes may write to the database
/// meanwhile. The ending of the path selects the format: ".db" a database, ".jsonl" lines, ".csv"
/// rows, ".json" T4. If a database file is copied to a ".db" file, the copy is one state of the
/// database. Any other copy has the records that exist from the beginning to the end of the export,
/// and perhaps some that are stored or deleted meanwhile. Requires: no file has this path.
Status export_to(Store& store, const std::string& path);

/// Ok if `path` may have something to import: a readable file that is not a database, or a pipe,
/// from which nothing is read. Call this function before opening a store for an import, so that a
/// wrong path does not create a database.
Status check_importable(const std::string& path);

/// Copies the records and calibrations of a damaged file that agree with their hashes to a new
/// database at the path `fresh`. The damaged file is only read, and may be of an older schema
/// version.
Result<AppendSummary> recover(const std::string& damaged, const std::string& fresh,
                              StoreOptions options = {});

}  // namespace tw::db
