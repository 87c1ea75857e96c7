// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shows the measurements on which an answer of the database is based (db::Explanation), as text and
// as JSON. The answer for a key is the best record that the database believes. Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "db/trust.h"

namespace tw::tools {

/// Returns a text that compares the device on which the answer was measured with the device that
/// was asked for, such as "same class: measured on another device of this model".
std::string show_likeness(const db::Explanation& explanation);

/// Returns a text about the trials of the answer's schedule and the range of their times: "3
/// sessions of 2 machines, 7 trials: 9.8 µs to 10.4 µs".
std::string show_agreement(const db::Explanation& explanation);

/// Returns the explanation as JSON. It lists the first `count` of the records that are not used.
/// Requires: `count` is at most the size of Explanation::not_used.
nlohmann::json as_json(const db::Explanation& explanation, size_t count);

}  // namespace tw::tools
