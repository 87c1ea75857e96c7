// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the trials of a group as the rule of the best one reads them (ranking.h), and the
// table `best`, one row for each group that has a best trial. The table is a function of the
// trials: the writer's transaction keeps it up, `verify` recomputes it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/groups.h"
#include "db/ranking.h"
#include "db/statement.h"

namespace tw::db {

/// "CREATE TABLE best(...)".
std::string create_best_sql(const Dialect& dialect);

/// The trials of a group, without those whose texts or status cannot be read.
Result<std::vector<RankedTrial>> candidates_of(Connection& connection, int64_t group);

/// The trials of a group, sorted by hash, and the judgement of each.
struct JudgedGroup {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
Result<JudgedGroup> judged_group(Connection& connection, int64_t group);

/// Brings the row of a group up to date. Reads the trials that may be the best one, and all of the
/// group only where none with status Ok is believed. Requires: a write transaction.
Status refresh_best(Connection& connection, int64_t group);

/// Derives anew what follows from the trials of a group, which has lost some. Requires the same.
Status refresh_group(Connection& connection, int64_t group);

/// Derives anew all that follows from the trials.
Status refresh_all(Connection& connection);

/// The number of derived rows that a recomputation lacks, plus those that it adds. A row with wrong
/// values counts twice.
Result<int64_t> count_wrong_rows(Connection& connection);

}  // namespace tw::db
