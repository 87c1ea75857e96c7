// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: records as rows of the table `trials`. The columns are the fields of
// TW_RECORD_FIELDS after seq, hash, workload_hash and schedule_hash.

#include <string>
#include <string_view>

#include "base/result.h"
#include "db/record.h"
#include "db/statement.h"

namespace tw::db {

/// 32 bytes of a hash in hex, and back. Requires: an even number of hex digits.
std::string bytes_of_hex(std::string_view hex);
std::string hex_of_bytes(std::string_view bytes);

/// "CREATE TABLE trials(...)" as it stands in the file.
std::string create_trials_sql();
/// INSERT of one record that does nothing where its hash is present; bind with bind_record.
std::string insert_trial_sql();
void bind_record(Statement& statement, const Record& record);

/// SELECT of one record by seq; read with record_of.
std::string select_trial_sql();
/// The record, or why it cannot be believed: it does not agree with its hash.
Result<Record> record_of(const Row& row);

}  // namespace tw::db
