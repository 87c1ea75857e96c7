// SPDX-License-Identifier: Apache-2.0
#pragma once
// The evidence for an answer of the database, as text and as JSON. Thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "db/trust.h"

namespace tw::tools {

/// "same class: measured on another device of this model"
std::string show_likeness(const db::Explanation& explanation);

/// "3 sessions of 2 machines, 7 trials: 9.8 µs to 10.4 µs"
std::string show_agreement(const db::Explanation& explanation);

/// The explanation as JSON, with the first `count` of the records that are not used.
nlohmann::json as_json(const db::Explanation& explanation, size_t count);

}  // namespace tw::tools
