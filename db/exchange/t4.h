// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records in T4, the JSON format of results that several autotuners share. It is version 1.0.0 of
// results-schema.json in branch T4 of github.com/odgaard/TuningSchema, with two additions of Kernel
// Tuner: "correct" as a value of "invalidity", and texts as values of measurements. Each record is
// one result. Times are in milliseconds, as Kernel Tuner writes them. docs/database_format.md,
// "T4", has a table of the fields. Free functions; thread-safe.

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

inline constexpr std::string_view t4_schema_version = "1.0.0";

/// Returns the value of "invalidity" for a status: "correct", or the kind of the failure, such as
/// "timeout" or "compile".
std::string_view t4_invalidity(TrialStatus status);

/// Returns a time, given in milliseconds since 1970, as UTC text such as
/// "2023-11-14T22:13:20.000Z". A time before the year 1 or after 9999 becomes the nearest time of
/// these years.
std::string utc_text(int64_t milliseconds);

/// Returns the record as one element of "results", without a line feed. The measurement
/// "record_line" of this element has the whole record as a line of to_json(). read_t4() reads only
/// this line.
std::string to_t4(const Record& record);

/// A function that read_t4() calls for each result. The first argument is the record, or the reason
/// why the result is not a record; the second is the text of the result.
using OnResult = std::function<Status(Result<Record>, const std::string& text)>;
/// Reads a document and calls `on_result` for each result in turn. Results of other programs are
/// not records, because they have no schedule of this project. Values that are nested deeper than
/// those of to_t4() are left out of the text. Fails with Invalid if the input is not JSON or has no
/// list `results`. If `on_result` returns an error, reading stops with this error. `name` is the
/// name of the input in messages.
Status read_t4(std::istream& in, const std::string& name, const OnResult& on_result);

}  // namespace tw::db
