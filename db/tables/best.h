// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: reads the trials of a group from tables, as a TrialSource for the rule of the
// best trial (ranking.h). Also keeps the table `best`, which has one row for each group that has a
// best trial. The table is derived from the trials. Each transaction that writes trials updates it,
// and verify() recomputes it and compares.

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

/// Returns the SQL "CREATE TABLE best(...)".
std::string create_best_sql(const Dialect& dialect);

/// A row of the table `sessions`.
struct SessionRow {
  std::string name;
  std::string host, toolchain;  ///< empty if the session's trials may have several values
  double peak_gflops = 0, least_cost = 0;
  double ratio = 1;      ///< TimingSession::ratio
  bool accuses = false;  ///< true if the session may have trials that prove a schedule wrong
};
using SessionRows = std::map<int64_t, SessionRow>;  ///< by id

/// The trials of a group in the database. Trials with status Ok and a latency count as timed.
/// Trials are found by indexes. Several reads see one state of the database only if a transaction
/// is open.
class TrialsInTable final : public TrialSource {
 public:
  TrialsInTable(Connection& connection, int64_t group) : connection_(connection), group_(group) {}

  TrialStatus status() const override { return TrialStatus::Ok; }
  Result<std::vector<TimingSession>> sessions() override;
  /// This function and all that follow require that sessions() was called before.
  Result<std::vector<RankedTrial>> trials_of(const std::string& schedule_hash) override;
  Result<std::vector<std::string>> shared_by(const std::string& session) override;
  Status by_cost(double least_cost, double least_peak,
                 const std::function<Result<bool>(const Timing&)>& visit) override;
  /// Returns all sessions that have trials of the group, including those without timed trials.
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
  /// The result of shared_by() for each session, by id; nullopt until it is first needed.
  std::optional<std::map<int64_t, std::vector<std::string>>> shared_;
  /// The group's RankedTrial::needed_share; nullopt until a trial asks for it.
  std::optional<double> needed_share_;
};

/// Returns all trials of a group, except those whose texts or status cannot be read.
Result<std::vector<RankedTrial>> candidates_of(Connection& connection, int64_t group);

/// The trials of a group, sorted by hash, and the judgement of each trial at the same index.
struct JudgedGroup {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
Result<JudgedGroup> judged_group(Connection& connection, int64_t group);

/// Updates the peak of a group, and for each of its sessions the ratio of the session's latencies
/// to those of the majority of sessions. Call this function after trials of the group were inserted
/// and counted. Sessions are compared on the schedules that the new trials may affect. If the peak
/// has moved so far that other trials count as disturbed, sessions are compared on all schedules
/// that at least three sessions have tried. Requires: a write transaction.
Status compare_sessions(Connection& connection, const GroupChange& change);

/// Returns ranked_trial() of a record that was stored in row `row` by this transaction. The hashes
/// of the result are bytes, as in the tables, and not hex digits.
RankedTrial ranked_trial_of_row(const Record& record, int64_t row);

/// Computes and stores the peak and the best trial of a new group. `trials` are all trials of the
/// group. This transaction has made the group, and has inserted and counted the trials. Requires: a
/// write transaction; the group has at most two sessions, which are too few to compare them.
Status derive_new_group(Connection& connection, int64_t group,
                        const std::vector<RankedTrial>& trials);

/// Updates the row of a group in the table `best`. Reads only trials that may be the best trial. If
/// no trial with status Ok is believed, reads all trials of the group. Requires: a write
/// transaction.
Status refresh_best(Connection& connection, int64_t group);

/// Recomputes all rows that are derived from the trials of a group. Call this function after trials
/// were deleted. Requires: a write transaction.
Status refresh_group(Connection& connection, int64_t group);

/// Recomputes all rows that are derived from trials, for all groups. Requires: a write transaction.
Status refresh_all(Connection& connection);

/// Recomputes all derived rows and returns the number of differences: stored rows that the
/// recomputation does not have, plus rows that only the recomputation has. A row with wrong values
/// counts twice.
Result<int64_t> count_wrong_rows(Connection& connection);

}  // namespace tw::db
