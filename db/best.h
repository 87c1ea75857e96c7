// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the trials of a group as the rule of the best one reads them (ranking.h), and the
// table `best`, one row for each group that has a best trial. The table is a function of the
// trials: the writer's transaction keeps it up, `verify` recomputes it.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/groups.h"
#include "db/ranking.h"
#include "db/statement.h"

namespace tw::db {

/// "CREATE TABLE best(...)".
std::string create_best_sql(const Dialect& dialect);

/// The trials of a group with status Ok, by indexes. Reads one state of the database only inside of
/// a transaction.
class TrialsInTable final : public TrialSource {
 public:
  TrialsInTable(Connection& connection, int64_t group) : connection_(connection), group_(group) {}

  TrialStatus status() const override { return TrialStatus::Ok; }
  Result<std::vector<TimingSession>> sessions() override;
  Result<std::vector<RankedTrial>> trials_of(const std::string& schedule_hash) override;
  /// Requires: sessions() was asked.
  Result<std::vector<std::string>> shared_by(const std::string& session) override;
  /// Requires: sessions() was asked.
  Status by_cost(double least_cost, double least_peak,
                 const std::function<Result<bool>(const Timing&)>& visit) override;

 private:
  struct OwnedTiming {
    double cost;
    int64_t session;
    std::string schedule;
  };
  Result<std::vector<OwnedTiming>> read_timings(double least_cost, double least_peak, int64_t limit,
                                                int64_t offset);

  Connection& connection_;
  int64_t group_;
  std::map<int64_t, std::string> names_;  ///< of sessions
  std::map<std::string, int64_t> ids_;
};

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
