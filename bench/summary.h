// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shortens the document that --output writes to the figures that are quoted, so that it is small
// enough to be kept and compared. --trace writes the details. Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tw::bench {

/// The document without schedules, traces of searches, single comparisons and forms that lost;
/// numbers have 5 digits.
nlohmann::json summary_of(const nlohmann::json& document);

/// JSON with one row per line: arrays of objects, and values that contain them, take several lines.
std::string row_lines(const nlohmann::json& document);

}  // namespace tw::bench
