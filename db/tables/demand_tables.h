// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the tables of demands (demand.h) and of claims (claims.h). Runs leave messages
// for other runs in these tables. The tables hold no records or calibrations and are not derived
// from them.

#include <string>
#include <utility>
#include <vector>

#include "db/engine/dialect.h"

namespace tw::db {

/// demand_objects() returns the names of the tables of demands, and claim_objects() those of
/// claims. Each name comes with the SQL that creates the table.
std::vector<std::pair<std::string, std::string>> demand_objects(const Dialect& dialect);
std::vector<std::pair<std::string, std::string>> claim_objects(const Dialect& dialect);

}  // namespace tw::db
