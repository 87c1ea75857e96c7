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

/// What a best trial is kept for.
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

/// Every group that has trials, in the order of their keys.
Result<std::vector<BestKey>> groups_of(Connection& connection);

/// Those of a workload, given by the hash of its key in hex, under these layouts.
Result<std::vector<BestKey>> groups_of(Connection& connection, const std::string& workload_hash,
                                       const std::string& layouts);

Result<std::vector<RankedTrial>> candidates_of(Connection& connection, const BestKey& group);

/// A group's trials by hash, with what the rule says of them.
struct JudgedGroup {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
Result<JudgedGroup> judged_group(Connection& connection, const BestKey& group);

/// Brings the row of a group up to date. Requires: a write transaction.
Status refresh_best(Connection& connection, const BestKey& group);

/// Derives the whole table anew.
Status refresh_all_best(Connection& connection);

/// Rows that differ from their recomputation, on either side.
Result<int64_t> count_wrong_best(Connection& connection);

}  // namespace tw::db
