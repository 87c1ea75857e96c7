// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: records as rows of the table `trials`, and calibrations as rows of the table
// `calibrations`. A row of `trials` holds a complete record: each number in a column with the name
// of the field, and all texts packed into one column (texts.h). The first columns are derived from
// the record; trials are found by them.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/calibration.h"
#include "db/engine/statement.h"
#include "db/record.h"

namespace tw::db {

inline constexpr size_t schedule_key_bytes = 16;

/// The value of the column `schedule`: 16 bytes that identify the schedule of a record within its
/// group.
std::string schedule_key(const Record& record);

/// The value of the column `cost`. Sorting the Ok trials of a group by cost sorts them by their
/// latency at the group's peak. The cost is the latency in ns times the peak in GFLOP/s, or the
/// latency alone if the peak is unknown; 0 for trials that are not Ok.
double cost_of(const Record& record);

/// The SQL "CREATE TABLE trials(...)" in this dialect.
std::string create_trials_sql(const Dialect& dialect);

/// The rows of the tables `groups` and `sessions` to which a trial belongs.
struct Membership {
  int64_t group = 0, session = 0;
  /// True if the row of the group was made for the records that are being inserted.
  bool is_new_group = false;
  bool is_new_session = false;  ///< true if the row of the session was made for these records
};

/// An INSERT of a record, which does nothing if the hash is present. bind_record() sets its
/// parameters.
std::string insert_trial_sql();
/// The columns whose values bind_record binds.
std::string record_columns();
void bind_record(Statement& statement, int64_t seq, const Record& record,
                 const Membership& membership);

/// A SELECT of one record by seq. Its row is read by record_of().
const std::string& select_trial_sql();
/// A SELECT of records with the numbers of the row, its group and its session (number_of()). A
/// condition may be appended.
const std::string& select_trials_sql();
struct RowNumber {
  int64_t seq = 0, group = 0, session = 0;
};
RowNumber number_of(const Row& row);
/// The record of a row; an error if it does not agree with its hash.
Result<Record> record_of(const Row& row);
/// True if the columns that are derived from the record agree with it.
bool agrees_with_columns(const Row& row, const Record& record);

/// Reads a column into a field; false if the column has another type or an invalid value.
bool read_column(const Row& row, int column, std::string& out);
bool read_column(const Row& row, int column, int64_t& out);
bool read_column(const Row& row, int column, double& out);
bool read_column(const Row& row, int column, TrialStatus& out);
bool read_column(const Row& row, int column, std::vector<double>& out);

/// Converts between a record and the value of the column `texts`, which has the fields of type
/// std::string in the order of TW_RECORD_FIELDS. read_texts() returns false if the blob cannot be
/// read.
std::string packed_texts(const Record& record);
bool read_texts(std::string_view blob, Record& record);

/// The SQL "CREATE TABLE calibrations(...)" in this dialect.
std::string create_calibrations_sql(const Dialect& dialect);
/// An INSERT of a calibration, which does nothing if the hash is present.
std::string insert_calibration_sql();
void bind_calibration(Statement& statement, const Calibration& calibration);
/// A SELECT of calibrations, to which a condition may be appended. Its rows are read by
/// calibration_of().
std::string select_calibrations_sql();
/// The calibration of a row; an error if it does not agree with its hash.
Result<Calibration> calibration_of(const Row& row);

}  // namespace tw::db
