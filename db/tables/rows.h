// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: records as rows of the table `trials`, and calibrations as rows of the table
// `calibrations`. A row of `trials` holds a complete record: each number in a column with the name
// of the field, and all texts packed into one column (texts.h). Further columns (group, session,
// schedule, cost) are derived from the record, and indexes find trials by these.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/calibration.h"
#include "db/engine/statement.h"
#include "db/record.h"

namespace tw::db {

inline constexpr size_t schedule_key_bytes = 16;

/// Returns the value of the column `schedule`: 16 bytes that identify the schedule of a record
/// within its group.
std::string schedule_key(const Record& record);

/// Returns the value of the column `cost`: the latency in ns times the peak in GFLOP/s, or the
/// latency alone if the peak is unknown; 0 for trials whose status is not Ok. The order of the
/// costs of a group's trials is the order of their latencies after these are scaled to one common
/// peak.
double cost_of(const Record& record);

/// Returns the SQL "CREATE TABLE trials(...)" in this dialect.
std::string create_trials_sql(const Dialect& dialect);

/// The rows of the tables `groups` and `sessions` to which a trial belongs.
struct Membership {
  int64_t group = 0, session = 0;
  /// True if the row of the group was made for the records that are being inserted.
  bool is_new_group = false;
  bool is_new_session = false;  ///< true if the row of the session was made for these records
};

/// Returns an INSERT of a record, which does nothing if the hash of the record is in the table.
/// bind_record() sets the parameters of the statement.
std::string insert_trial_sql();
/// Returns the names of the columns whose values bind_record() binds, in this order.
std::string record_columns();
void bind_record(Statement& statement, int64_t seq, const Record& record,
                 const Membership& membership);

/// Returns a SELECT of one record by the number of its row (seq). record_of() reads the row of the
/// result.
const std::string& select_trial_sql();
/// Returns a SELECT of records, to which a condition may be appended. record_of() and number_of()
/// read the rows of the result.
const std::string& select_trials_sql();
struct RowNumber {
  int64_t seq = 0, group = 0, session = 0;
};
RowNumber number_of(const Row& row);
/// Returns the record of a row; an error if the record does not agree with its hash.
Result<Record> record_of(const Row& row);
/// True if the columns that are derived from the record agree with it.
bool agrees_with_columns(const Row& row, const Record& record);

/// Reads a column into a field; false if the column has another type or an invalid value.
bool read_column(const Row& row, int column, std::string& out);
bool read_column(const Row& row, int column, int64_t& out);
bool read_column(const Row& row, int column, double& out);
bool read_column(const Row& row, int column, TrialStatus& out);
bool read_column(const Row& row, int column, std::vector<double>& out);

/// packed_texts() returns the value of the column `texts` for a record: its fields of type
/// std::string, in the order of TW_RECORD_FIELDS. read_texts() sets these fields of a record from
/// such a value, and returns false if the value cannot be read.
std::string packed_texts(const Record& record);
bool read_texts(std::string_view blob, Record& record);

/// Returns the SQL "CREATE TABLE calibrations(...)" in this dialect.
std::string create_calibrations_sql(const Dialect& dialect);
/// Returns an INSERT of a calibration, which does nothing if its hash is in the table.
/// bind_calibration() sets the parameters of the statement.
std::string insert_calibration_sql();
void bind_calibration(Statement& statement, const Calibration& calibration);
/// Returns a SELECT of calibrations, to which a condition may be appended. calibration_of() reads
/// the rows of the result.
std::string select_calibrations_sql();
/// Returns the calibration of a row; an error if the calibration does not agree with its hash.
Result<Calibration> calibration_of(const Row& row);

}  // namespace tw::db
