// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the tables of demands (demand.h) and of claims (claims.h). Runs leave messages
// for other runs there. The tables hold no records or calibrations and are not derived from them.

#include <string>
#include <utility>
#include <vector>

#include "db/engine/dialect.h"

namespace tw::db {

/// Return the names of the tables, each with the SQL that creates it.
std::vector<std::pair<std::string, std::string>> demand_objects(const Dialect& dialect);
std::vector<std::pair<std::string, std::string>> claim_objects(const Dialect& dialect);

}  // namespace tw::db
