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
/// latency alone if the peak is unknown. 0 for trials that are not Ok or have no latency. Within a
/// group, costs are ordered as the latencies are after scaling them to one common peak.
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

/// Returns an INSERT for a record. It does nothing if the table has a record with this hash.
/// bind_record() sets the parameters of the statement.
std::string insert_trial_sql();
/// Returns the names of the columns, in the order in which bind_record() binds their values.
std::string record_columns();
void bind_record(Statement& statement, int64_t seq, const Record& record,
                 const Membership& membership);

/// Returns a SELECT of one record by the number of its row (seq). record_of() reads the row of the
/// result.
const std::string& select_trial_sql();
/// Returns a SELECT of records. A condition may be appended to it. record_of() and number_of() read
/// the rows of the result.
const std::string& select_trials_sql();
struct RowNumber {
  int64_t seq = 0, group = 0, session = 0;
};
RowNumber number_of(const Row& row);
/// Returns the record of a row. Fails with Unsupported if only a newer program knows the record's
/// status. Fails with another error if a column cannot be read, the record does not agree with its
/// hash, or a value is impossible (check()).
Result<Record> record_of(const Row& row);
/// True if the columns `schedule` and `cost`, which are derived from the record, agree with it.
bool agrees_with_columns(const Row& row, const Record& record);

/// Reads a column into a field; false if the column has another type or an invalid value.
bool read_column(const Row& row, int column, std::string& out);
bool read_column(const Row& row, int column, int64_t& out);
bool read_column(const Row& row, int column, double& out);
bool read_column(const Row& row, int column, TrialStatus& out);
bool read_column(const Row& row, int column, std::vector<double>& out);

/// packed_texts() returns the value of the column `texts` for a record: all its fields of type
/// std::string, in the order of TW_RECORD_FIELDS. read_texts() sets these fields from a value of
/// this column. It returns false if the value cannot be read.
std::string packed_texts(const Record& record);
bool read_texts(std::string_view blob, Record& record);

/// Returns the SQL "CREATE TABLE calibrations(...)" in this dialect.
std::string create_calibrations_sql(const Dialect& dialect);
/// Returns an INSERT for a calibration. It does nothing if the table has a calibration with this
/// hash. bind_calibration() sets the parameters of the statement.
std::string insert_calibration_sql();
void bind_calibration(Statement& statement, const Calibration& calibration);
/// Returns a SELECT of calibrations. A condition may be appended to it. calibration_of() reads the
/// rows of the result.
std::string select_calibrations_sql();
/// Returns the calibration of a row; an error if check() does not accept it, for example because it
/// does not agree with its hash.
Result<Calibration> calibration_of(const Row& row);

}  // namespace tw::db
