// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies records and calibrations between databases, and between databases and files. Like the
// Store, not thread-safe.

#include <iosfwd>
#include <string>

#include "base/result.h"
#include "db/store.h"

namespace tw::db {

/// Adds the records and calibrations of another database to the store. Damaged ones are left out.
/// Merging a second time changes nothing.
Result<AppendSummary> merge_from(Store& store, const std::string& path);
Result<AppendSummary> merge_from(Store& store, Store& other);
/// Imports lines as export_jsonl() writes them. A bad line is quarantined, and the others are
/// stored. If none of the first 64 lines is a record or calibration, the input is taken to be
/// something else: fails with Invalid and stores nothing. `name` is the name of the input in
/// messages.
Result<AppendSummary> import_jsonl(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_jsonl(Store& store, const std::string& path);
/// As import_jsonl(), for the lines of a spool, of which any number may be bad.
Result<AppendSummary> import_spooled(Store& store, std::istream& in);
/// As import_jsonl(), for rows as export_csv() writes them, with the names of the columns in the
/// first row.
Result<AppendSummary> import_csv(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_csv(Store& store, const std::string& path);
/// As import_jsonl(), for a document of results as export_t4() writes it.
Result<AppendSummary> import_t4(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_t4(Store& store, const std::string& path);
/// Writes all records as lines in Order::Created, so that equal sets of records give equal bytes,
/// and then all calibrations.
Status export_jsonl(Store& store, std::ostream& out);
/// Writes all records as rows with a column for each field (db/exchange/csv.h), without
/// calibrations.
Status export_csv(Store& store, std::ostream& out);
/// Writes all records in T4, the format in which autotuners share results (db/exchange/t4.h).
Status export_t4(Store& store, std::ostream& out);
/// Writes a consistent copy to a new file, even while others write to the database. The ending of
/// the path selects the format: ".db" a database, ".jsonl" lines, ".csv" rows, ".json" T4.
/// Requires: no file has this path.
Status export_to(Store& store, const std::string& path);

/// Ok if the path is a readable file that is not a database, and so may hold JSON lines, or a pipe,
/// from which nothing is read. Call this before opening a store for an import, so that a wrong path
/// does not create a database.
Status check_importable(const std::string& path);

/// Copies every record and calibration of a damaged file that agrees with its hash to a new
/// database `fresh`. The damaged file may be of an older schema version and is only read.
Result<AppendSummary> recover(const std::string& damaged, const std::string& fresh,
                              StoreOptions options = {});

}  // namespace tw::db
