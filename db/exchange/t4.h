// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records in the results schema that autotuners share, version 1.0.0
// (github.com/odgaard/TuningSchema, branch T4, results-schema.json, with the additions that Kernel
// Tuner made: "correct" as a value of "invalidity", texts as values of measurements). Each record
// is one result. Times are in milliseconds, as Kernel Tuner writes them. docs/database_format.md,
// "T4", has the table. Free functions; thread-safe.

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

inline constexpr std::string_view t4_schema_version = "1.0.0";

/// The value of "invalidity" for a status: "correct", or the name of the phase that failed.
std::string_view t4_invalidity(TrialStatus status);

/// A time, in milliseconds since 1970, as UTC text such as "2023-11-14T22:13:20.000Z", for the
/// years 1 to 9999.
std::string utc_text(int64_t milliseconds);

/// The record as one element of "results", without a line feed. Its measurement "record_line" is
/// the record as a line of JSON (to_json()), which read_t4() reads.
std::string to_t4(const Record& record);

/// Called for each result, with the record or the reason why the result is not a record, and with
/// the text of the result.
using OnResult = std::function<Status(Result<Record>, const std::string& text)>;
/// Reads a document and calls `on_result` for one result after another. Results of other programs
/// are not records, since they have no schedule of this project. Invalid if the input is not JSON;
/// otherwise the first error that `on_result` returns.
Status read_t4(std::istream& in, const std::string& name, const OnResult& on_result);

}  // namespace tw::db
