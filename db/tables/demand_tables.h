// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the tables that hold no facts and follow from none: of demand (demand.h), and of
// the trials that runs have under way (claims.h).

#include <string>
#include <utility>
#include <vector>

#include "db/engine/dialect.h"

namespace tw::db {

/// Names of tables, and the SQL that creates them.
std::vector<std::pair<std::string, std::string>> demand_objects(const Dialect& dialect);
std::vector<std::pair<std::string, std::string>> claim_objects(const Dialect& dialect);

}  // namespace tw::db
