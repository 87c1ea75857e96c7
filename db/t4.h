// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records in the results schema that autotuners share, version 1.0.0
// (github.com/odgaard/TuningSchema, branch T4, results-schema.json, with the additions that Kernel
// Tuner made: "correct" as a value of "invalidity", texts as values of measurements). One result a
// record; times are in milliseconds, as Kernel Tuner writes them. docs/database_format.md, "T4",
// has the table. Free functions; thread-safe.

#include <cstdint>
#include <string>
#include <string_view>

#include "db/record.h"

namespace tw::db {

inline constexpr std::string_view t4_schema_version = "1.0.0";

/// The value of "invalidity" for a status: "correct", or the phase that failed.
std::string_view t4_invalidity(TrialStatus status);

/// A time since 1970 in UTC, of the years 1 to 9999: "2023-11-14T22:13:20.000Z".
std::string utc_text(int64_t milliseconds);

/// One element of "results", without a line feed.
std::string to_t4(const Record& record);

}  // namespace tw::db
