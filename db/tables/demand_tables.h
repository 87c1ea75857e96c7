// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: tables that neither hold records or calibrations nor are derived from them:
// demand (demand.h) and claims (claims.h).

#include <string>
#include <utility>
#include <vector>

#include "db/engine/dialect.h"

namespace tw::db {

/// The names of the tables, each with the SQL that creates it.
std::vector<std::pair<std::string, std::string>> demand_objects(const Dialect& dialect);
std::vector<std::pair<std::string, std::string>> claim_objects(const Dialect& dialect);

}  // namespace tw::db
