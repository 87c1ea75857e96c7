// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: records as rows of the table `trials`, and calibrations as rows of the table of
// that name. A row of `trials` holds all of its record: the numbers in columns with the names of
// their fields, the texts packed together (texts.h). Before them stand columns that are derived
// from the record, by which trials are found.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/calibration.h"
#include "db/engine/statement.h"
#include "db/record.h"

namespace tw::db {

inline constexpr size_t schedule_key_bytes = 16;

/// The column `schedule`: 16 bytes that name the schedule of a record among those of its group.
std::string schedule_key(const Record& record);

/// The column `cost`: by it the trials of a group that have status Ok sort as by their latency at
/// the group's peak. It is the latency in ns times the peak in GFLOP/s, or the latency alone where
/// the peak is unknown; 0 for other trials.
double cost_of(const Record& record);

/// "CREATE TABLE trials(...)" as it stands in a file, or in the words of a server.
std::string create_trials_sql(const Dialect& dialect);

/// The rows of the tables `groups` and `sessions` to which a trial belongs.
struct Membership {
  int64_t group = 0, session = 0;
  bool is_new_group = false;    ///< the row was made for the records that are being inserted
  bool is_new_session = false;  ///< likewise
};

/// INSERT of a record, which does nothing where its hash is present; bind with bind_record.
std::string insert_trial_sql();
/// The columns whose values bind_record binds.
std::string record_columns();
void bind_record(Statement& statement, int64_t seq, const Record& record,
                 const Membership& membership);

/// SELECT of one record by seq; read with record_of.
const std::string& select_trial_sql();
/// SELECT of the rows of records with the number of the row and of its group and session, to which
/// a condition may be appended.
const std::string& select_trials_sql();
struct RowNumber {
  int64_t seq = 0, group = 0, session = 0;
};
RowNumber number_of(const Row& row);
/// The record, or why it cannot be believed: it does not agree with its hash.
Result<Record> record_of(const Row& row);
/// True if the columns that are derived from the record agree with it.
bool agrees_with_columns(const Row& row, const Record& record);

/// Reads a column into a field; false where it holds something else.
bool read_column(const Row& row, int column, std::string& out);
bool read_column(const Row& row, int column, int64_t& out);
bool read_column(const Row& row, int column, double& out);
bool read_column(const Row& row, int column, TrialStatus& out);
bool read_column(const Row& row, int column, std::vector<double>& out);

/// The texts of a record, which are the fields of type std::string in the order of
/// TW_RECORD_FIELDS, as the column `texts` holds them; and back, false where they cannot be read.
std::string packed_texts(const Record& record);
bool read_texts(std::string_view blob, Record& record);

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
