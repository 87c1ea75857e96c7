// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the trials of a group in tables, as a TrialSource for the rule of the best trial
// (ranking.h); and the table `best`, which has one row for each group that has a best trial. The
// table follows from the trials. Each transaction that writes trials updates it, and verify()
// recomputes it and compares.

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

/// The SQL "CREATE TABLE best(...)".
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

/// The trials of a group, of which those with status Ok and a latency count as timed. They are read
/// by indexes. Reads see one state of the database only if a transaction is open.
class TrialsInTable final : public TrialSource {
 public:
  TrialsInTable(Connection& connection, int64_t group) : connection_(connection), group_(group) {}

  TrialStatus status() const override { return TrialStatus::Ok; }
  Result<std::vector<TimingSession>> sessions() override;
  /// All functions from here on require that sessions() was called before.
  Result<std::vector<RankedTrial>> trials_of(const std::string& schedule_hash) override;
  Result<std::vector<std::string>> shared_by(const std::string& session) override;
  Status by_cost(double least_cost, double least_peak,
                 const std::function<Result<bool>(const Timing&)>& visit) override;
  /// All sessions that have trials of the group, including those without timed trials.
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
  /// For each session the schedules that it shares with others (shared_by()); nullopt until they
  /// are first needed.
  std::optional<std::map<int64_t, std::vector<std::string>>> shared_;
  std::optional<double> needed_share_;  ///< nullopt until a trial asks for it
};

/// Returns all trials of a group, except those whose texts or status cannot be read.
Result<std::vector<RankedTrial>> candidates_of(Connection& connection, int64_t group);

/// The trials of a group, sorted by hash, and the judgement of each trial at the same index.
struct JudgedGroup {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
Result<JudgedGroup> judged_group(Connection& connection, int64_t group);

/// Call this function after trials of a group were inserted and counted. It updates the peak of the
/// group, and for each session of the group the ratio of its latencies to those of the majority of
/// sessions. The sessions are compared on the schedules that the new trials may affect. If the peak
/// has moved so far that other trials count as disturbed, the sessions are compared on all
/// schedules that at least three sessions have tried. Requires: a write transaction.
Status compare_sessions(Connection& connection, const GroupChange& change);

/// Returns ranked_trial() of a record that was just stored in this row. The hashes of the result
/// are bytes, as in the tables, and not hex digits.
RankedTrial ranked_trial_of_row(const Record& record, int64_t row);

/// Computes the peak and the best trial of a new group from `trials`, which are all its trials. The
/// present transaction has made the group and has inserted and counted these trials. Requires: the
/// group has too few sessions for comparing them (two at most); a write transaction.
Status derive_new_group(Connection& connection, int64_t group,
                        const std::vector<RankedTrial>& trials);

/// Updates the row of a group in the table `best`. Reads only trials that may be the best trial,
/// but all trials of the group if no trial with status Ok is believed. Requires: a write
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
