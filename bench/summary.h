// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shortens the document that --output writes to the figures that are quoted, so that it is small
// enough to be committed and compared. With --trace the document keeps its details. Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tw::bench {

/// The document without schedules, traces of searches, single comparisons and slower forms of the
/// peer. Numbers are rounded to 5 digits.
nlohmann::json summary_of(const nlohmann::json& document);

/// The text of a JSON document with one row per line. Only arrays of objects, and values that
/// contain such arrays, are broken into several lines.
std::string row_lines(const nlohmann::json& document);

}  // namespace tw::bench
