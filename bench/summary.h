// SPDX-License-Identifier: Apache-2.0
#pragma once
// What --output writes: the figures that are quoted, without what only a closer look needs
// (--trace), small enough to be kept and compared. Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tw::bench {

/// The document without schedules, traces of searches, single comparisons and forms that lost;
/// numbers have 5 digits.
nlohmann::json summary_of(const nlohmann::json& document);

/// JSON with a row a line: arrays of objects, and what contains them, are spread over lines.
std::string row_lines(const nlohmann::json& document);

}  // namespace tw::bench
