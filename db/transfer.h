// SPDX-License-Identifier: Apache-2.0
#pragma once
// Facts that go from one database to another, and into and out of files. Not thread-safe, as the
// Store.

#include <iosfwd>
#include <string>

#include "base/result.h"
#include "db/store.h"

namespace tw::db {

/// The union with the records and calibrations of another database; idempotent. Damaged ones are
/// left out.
Result<AppendSummary> merge_from(Store& store, const std::string& path);
Result<AppendSummary> merge_from(Store& store, Store& other);
/// Reads lines as written by export_jsonl; a bad line is quarantined, and the others are stored.
/// An input whose first 64 lines, or all of fewer, are no facts is something else: fails with
/// Invalid and stores nothing. `name` is what messages call the input.
Result<AppendSummary> import_jsonl(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_jsonl(Store& store, const std::string& path);
/// The same for lines that were written as records: any number of them may be bad.
Result<AppendSummary> import_spooled(Store& store, std::istream& in);
/// The same for the rows that export_csv writes, the names of the columns first.
Result<AppendSummary> import_csv(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_csv(Store& store, const std::string& path);
/// The same for the results that export_t4 writes.
Result<AppendSummary> import_t4(Store& store, std::istream& in, const std::string& name);
Result<AppendSummary> import_t4(Store& store, const std::string& path);
/// In the order Created, so that equal sets of records give equal bytes; calibrations follow.
Status export_jsonl(Store& store, std::ostream& out);
/// Records only, with a column for each field (db/exchange/csv.h).
Status export_csv(Store& store, std::ostream& out);
/// Records as the autotuning community shares results (db/exchange/t4.h).
Status export_t4(Store& store, std::ostream& out);
/// A consistent copy while others write: ".db" a database, ".jsonl" lines, ".csv" rows, ".json"
/// T4. The path must be free.
Status export_to(Store& store, const std::string& path);

/// Ok for a file that can be read and is no database, so that it may hold JSON lines, and for a
/// pipe, of which nothing is read. Call it before a store is opened, and perhaps created, to import
/// the file.
Status check_importable(const std::string& path);

/// Saves every record and calibration of a damaged file, also one of an older schema version, that
/// agrees with its hash into a new database. The damaged file is only read.
Result<AppendSummary> recover(const std::string& damaged, const std::string& fresh,
                              StoreOptions options = {});

}  // namespace tw::db
