// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shortens the document that --output writes, so that it is small enough to be committed and
// compared. The figures that pages quote are kept. With --trace the document is not shortened.
// Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tw::bench {

/// Returns the document without schedules, traces of searches, single comparisons, errors of
/// outputs and slower forms of the peer. Numbers are rounded to 5 significant digits.
nlohmann::json summary_of(const nlohmann::json& document);

/// Returns the text of a JSON document. Each row, i.e. each object in an array, is one line. Other
/// values are broken into several lines only if they contain rows.
std::string row_lines(const nlohmann::json& document);

}  // namespace tw::bench
