// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: records as rows of the table `trials`, and calibrations as rows of the table of
// that name. The columns of `trials` are the fields of TW_RECORD_FIELDS after seq, hash,
// workload_hash and schedule_hash.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/calibration.h"
#include "db/record.h"
#include "db/statement.h"

namespace tw::db {

/// 32 bytes of a hash in hex, and back. Requires: an even number of hex digits.
std::string bytes_of_hex(std::string_view hex);
std::string hex_of_bytes(std::string_view bytes);

/// "CREATE TABLE trials(...)" as it stands in a file, or in the words of a server.
std::string create_trials_sql(const Dialect& dialect);
/// Definitions of the columns for the fields that record version 2 added. ALTER TABLE appends them
/// to an older table, so they end a new one too.
std::vector<std::string> columns_of_version_2(const Dialect& dialect);
/// The same of version 3.
std::vector<std::string> columns_of_version_3(const Dialect& dialect);
/// INSERT of a record, which does nothing where its hash is present; bind with bind_record.
std::string insert_trial_sql();
/// The columns whose values bind_record binds.
std::string record_columns();
void bind_record(Statement& statement, const Record& record);

/// SELECT of one record by seq from a table with the fields of that record version; read with
/// record_of.
const std::string& select_trial_sql(int version = record_version);
/// The record, or why it cannot be believed: it does not agree with its hash.
Result<Record> record_of(const Row& row, int version = record_version);

/// "CREATE TABLE calibrations(...)", likewise.
std::string create_calibrations_sql(const Dialect& dialect);
/// INSERT of one calibration that does nothing where its hash is present.
std::string insert_calibration_sql();
void bind_calibration(Statement& statement, const Calibration& calibration);
/// SELECT of calibrations, to which a condition may be appended; read with calibration_of.
std::string select_calibrations_sql();
/// The calibration, or why it cannot be believed.
Result<Calibration> calibration_of(const Row& row);

}  // namespace tw::db
