// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shows the measurements on which an answer of the database is based, as text and as JSON.
// Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "db/trust.h"

namespace tw::tools {

/// A text that compares the device that measured the answer with this machine, such as "same class:
/// measured on another device of this model".
std::string show_likeness(const db::Explanation& explanation);

/// A text for the trials of the answer's schedule and the range of their times: "3 sessions of 2
/// machines, 7 trials: 9.8 µs to 10.4 µs".
std::string show_agreement(const db::Explanation& explanation);

/// The explanation as JSON. Of the records that are not used, at most `count` are listed.
nlohmann::json as_json(const db::Explanation& explanation, size_t count);

}  // namespace tw::tools
