// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the derived table `best`, one row for each group of trials that has a best one.
// It is a function of the trials (ranking.h): the writer's transaction keeps it up, `verify`
// recomputes it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/ranking.h"
#include "db/record.h"
#include "db/statement.h"

namespace tw::db {

/// Key of a group of trials, for which the table `best` has at most one row.
struct BestKey {
  std::string workload_hash;  ///< hex
  std::string target;
  int64_t threads;
  int64_t codegen_abi;
  std::string device;
  std::string layouts;
  auto operator<=>(const BestKey&) const = default;
};

BestKey best_key_of(const Record& record);

/// The keys of all groups that have trials, sorted.
Result<std::vector<BestKey>> groups_of(Connection& connection);

/// The keys of the groups of a workload, given by the hash of its key in hex, with these layouts.
Result<std::vector<BestKey>> groups_of(Connection& connection, const std::string& workload_hash,
                                       const std::string& layouts);

Result<std::vector<RankedTrial>> candidates_of(Connection& connection, const BestKey& group);

/// The trials of a group, sorted by hash, and the judgement of each.
struct JudgedGroup {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
Result<JudgedGroup> judged_group(Connection& connection, const BestKey& group);

/// Brings the row of a group up to date. Requires: a write transaction.
Status refresh_best(Connection& connection, const BestKey& group);

/// Derives the whole table anew.
Status refresh_all_best(Connection& connection);

/// Number of rows of `best` that a recomputation lacks, plus those that it adds. A row with wrong
/// values counts twice.
Result<int64_t> count_wrong_best(Connection& connection);

}  // namespace tw::db
