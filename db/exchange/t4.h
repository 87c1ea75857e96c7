// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records in the results schema that autotuners share, version 1.0.0
// (github.com/odgaard/TuningSchema, branch T4, results-schema.json, with the additions that Kernel
// Tuner made: "correct" as a value of "invalidity", texts as values of measurements). One result a
// record; times are in milliseconds, as Kernel Tuner writes them. docs/database_format.md, "T4",
// has the table. Free functions; thread-safe.

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

inline constexpr std::string_view t4_schema_version = "1.0.0";

/// The value of "invalidity" for a status: "correct", or the phase that failed.
std::string_view t4_invalidity(TrialStatus status);

/// A time since 1970 in UTC, of the years 1 to 9999: "2023-11-14T22:13:20.000Z".
std::string utc_text(int64_t milliseconds);

/// One element of "results", without a line feed. Its measurement "record_line" is the record as a
/// line of an export, which is what read_t4() takes.
std::string to_t4(const Record& record);

/// Called with each result that is a record, or with why it is none; and with its text.
using OnResult = std::function<Status(Result<Record>, const std::string& text)>;
/// Reads a document of results one after the other. What other programs measured has no schedule of
/// ours, and so is no record. Invalid where the input is no JSON; else the first error of
/// `on_result`.
Status read_t4(std::istream& in, const std::string& name, const OnResult& on_result);

}  // namespace tw::db
