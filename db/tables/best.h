// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the trials of a group as the rule of the best one reads them (ranking.h), and the
// table `best`, one row for each group that has a best trial. The table is a function of the
// trials: the writer's transaction keeps it up, `verify` recomputes it.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/ranking.h"
#include "db/tables/groups.h"

namespace tw::db {

/// "CREATE TABLE best(...)".
std::string create_best_sql(const Dialect& dialect);

/// A row of the table `sessions`.
struct SessionRow {
  std::string name;
  std::string host, toolchain;  ///< empty: there may be several
  double peak_gflops = 0, least_cost = 0;
  double ratio = 1;      ///< TimingSession::ratio
  bool accuses = false;  ///< it may have trials that prove a schedule wrong
};
using SessionRows = std::map<int64_t, SessionRow>;  ///< by id

/// The trials of a group with status Ok, by indexes. Reads one state of the database only inside of
/// a transaction.
class TrialsInTable final : public TrialSource {
 public:
  TrialsInTable(Connection& connection, int64_t group) : connection_(connection), group_(group) {}

  TrialStatus status() const override { return TrialStatus::Ok; }
  Result<std::vector<TimingSession>> sessions() override;
  /// This and what follows requires that sessions() was asked.
  Result<std::vector<RankedTrial>> trials_of(const std::string& schedule_hash) override;
  Result<std::vector<std::string>> shared_by(const std::string& session) override;
  Status by_cost(double least_cost, double least_peak,
                 const std::function<Result<bool>(const Timing&)>& visit) override;
  /// All sessions that have trials of the group, also those that timed none.
  const SessionRows& rows() const { return sessions_; }

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
  SessionRows sessions_;
  std::map<std::string, int64_t> ids_;
  /// The schedules that sessions share, once they were asked for.
  std::optional<std::map<int64_t, std::vector<std::string>>> shared_;
};

/// The trials of a group, without those whose texts or status cannot be read.
Result<std::vector<RankedTrial>> candidates_of(Connection& connection, int64_t group);

/// The trials of a group, sorted by hash, and the judgement of each.
struct JudgedGroup {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
Result<JudgedGroup> judged_group(Connection& connection, int64_t group);

/// Brings the ratios of the group's sessions to the majority, and the group's peak, up to date
/// after trials were inserted and counted. Compares the schedules that the trials may have changed;
/// all that are shared where the group's peak moved so that other trials count. Requires: a write
/// transaction.
Status compare_sessions(Connection& connection, const GroupChange& change);

/// ranked_trial() of a record that has just got its row, with the hashes of the tables.
RankedTrial ranked_trial_of_row(const Record& record, int64_t row);

/// Derives the peak and the best trial of a group from all of its trials, which were inserted and
/// counted by the transaction that made the group. Requires: fewer sessions than compare with each
/// other; a write transaction.
Status derive_new_group(Connection& connection, int64_t group,
                        const std::vector<RankedTrial>& trials);

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
