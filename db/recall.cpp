// SPDX-License-Identifier: Apache-2.0
// What a store knows of a place: recall.h.

#include "db/recall.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/hash.h"
#include "db/best.h"
#include "db/groups.h"
#include "db/ranking.h"
#include "db/rows.h"
#include "db/store.h"
#include "db/store_state.h"

namespace tw::db {
namespace {

/// The groups of a place. They are several only where records claim different operators of one
/// workload.
Result<std::vector<int64_t>> groups_at(Connection& connection, const Key& key) {
  TW_TRY(const std::vector<Group> groups,
         groups_of(connection, sha256_hex(key.workload), key.layouts));
  std::vector<int64_t> ids;
  for (const Group& group : groups)
    if (group.key.target == key.target && group.key.device == key.device &&
        group.key.threads == key.threads && group.key.codegen_abi == key.codegen_abi)
      ids.push_back(group.id);
  return ids;
}

using RowsAndSchedules = std::vector<std::pair<int64_t, std::string>>;

Result<RowsAndSchedules> rows_and_schedules(Statement& statement) {
  RowsAndSchedules rows;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    rows.emplace_back(row.integer(0), row.blob(1));
    return true;
  }));
  return rows;
}

/// Judgements by row.
using Doubts = std::map<int64_t, Doubt>;

Result<Doubts> doubts_of_all(Connection& connection, int64_t group) {
  TW_TRY(const JudgedGroup judged, judged_group(connection, group));
  Doubts doubts;
  for (size_t i = 0; i < judged.trials.size(); ++i)
    doubts[judged.trials[i].trial] = judged.judgements[i].doubt;
  return doubts;
}

/// Some of the trials of a group: the fastest of those that no disturbed calibration makes look
/// fast, and the first ones by the hash of the schedule, which are a sample of all.
Result<Doubts> doubts_of_some(Connection& connection, int64_t group, int64_t most) {
  TrialsInTable trials(connection, group);
  TW_TRY(const std::vector<TimingSession> sessions, trials.sessions());
  TW_TRY(Statement fastest,
         Statement::prepare(connection,
                            "SELECT seq, schedule FROM trials WHERE group_id = ? AND cost > 0 AND "
                            "peak_gflops >= ? ORDER BY cost LIMIT ?"));
  fastest.bind(group).bind(least_undisturbed_peak(sessions)).bind(most - most / 4);
  TW_TRY(RowsAndSchedules rows, rows_and_schedules(fastest));
  TW_TRY(Statement sample,
         Statement::prepare(connection,
                            "SELECT seq, schedule FROM trials WHERE group_id = ? ORDER BY schedule "
                            "LIMIT ?"));
  TW_TRY(const RowsAndSchedules others, rows_and_schedules(sample.bind(group).bind(most / 4)));
  rows.insert(rows.end(), others.begin(), others.end());
  std::set<std::string> schedules;
  for (const auto& [row, schedule] : rows) schedules.insert(schedule);
  const std::vector<std::string> asked(schedules.begin(), schedules.end());
  TW_TRY(const std::vector<JudgedSchedule> judged, judge_schedules(trials, asked));
  Doubts all, doubts;
  for (const JudgedSchedule& schedule : judged)
    for (size_t i = 0; i < schedule.trials.size(); ++i)
      all[schedule.trials[i].trial] = schedule.judgements[i].doubt;
  for (const auto& [row, schedule] : rows)
    if (const auto found = all.find(row); found != all.end()) doubts.insert(*found);
  return doubts;
}

Result<int64_t> trials_in(Connection& connection, int64_t group) {
  TW_TRY(Statement select,
         Statement::prepare(connection, "SELECT trials FROM groups WHERE id = ?"));
  int64_t trials = 0;
  TW_RETURN_IF_ERROR(select.bind(group).one([&](const Row& row) { trials = row.integer(0); }));
  return trials;
}

void sort_by_latency(std::vector<RecalledTrial>& trials) {
  std::ranges::sort(trials, [](const RecalledTrial& a, const RecalledTrial& b) {
    return std::tie(a.record.latency_ns, a.record.hash) <
           std::tie(b.record.latency_ns, b.record.hash);
  });
}

/// The sessions that prove a schedule wrong, and whether a trial says anything else of it.
struct Verdicts {
  std::set<int64_t> accusers;
  bool is_settled = false;
};

Result<bool> accuses(Connection& connection, int64_t group, const std::string& schedule,
                     const std::string& host) {
  TrialsInTable trials(connection, group);
  TW_RETURN_IF_ERROR(trials.sessions());
  TW_TRY(const std::vector<RankedTrial> found, trials.trials_of(schedule));
  return std::ranges::any_of(found, [&](const RankedTrial& trial) {
    return proves_wrong(trial.status) && trial.host == host;
  });
}

}  // namespace

std::string schedule_key(std::string_view schedule) {
  return bytes_of_hex(sha256_hex(schedule).substr(0, 2 * schedule_key_bytes));
}

Result<RecalledTrials> Store::recall(const Key& place, int64_t most) {
  RecalledTrials recalled;
  TW_TRY(const Transaction one_state, Transaction::begin_reading(state_->connection));
  TW_TRY(const std::vector<int64_t> groups, groups_at(state_->connection, place));
  TW_TRY(Statement by_seq, Statement::prepare(state_->connection, select_trial_sql()));
  for (const int64_t group : groups) {
    TW_TRY(const int64_t trials, trials_in(state_->connection, group));
    recalled.known += trials;
    TW_TRY(const Doubts doubts, trials <= most ? doubts_of_all(state_->connection, group)
                                               : doubts_of_some(state_->connection, group, most));
    for (const auto& [row, doubt] : doubts) {
      TW_TRY(std::optional<Record> record, state_->read(by_seq, row));
      if (record) recalled.trials.push_back({std::move(*record), doubt});
    }
  }
  sort_by_latency(recalled.trials);
  return recalled;
}

RecalledTrials Store::recall_below(const Key& place, int64_t most) {
  RecalledTrials recalled;
  std::set<std::string> hashes;  // of layers that have a record both
  state_->each_layer([&](OpenLayer& layer) -> Status {
    TW_TRY(RecalledTrials of_layer, layer.store.recall(place, most));
    recalled.known += of_layer.known;
    for (RecalledTrial& trial : of_layer.trials)
      if (hashes.insert(trial.record.hash).second) recalled.trials.push_back(std::move(trial));
    return {};
  });
  sort_by_latency(recalled.trials);
  return recalled;
}

Result<TriedSchedules> Store::tried(const Key& place, const std::string& host) {
  TriedSchedules tried;
  TW_TRY(const Transaction one_state, Transaction::begin_reading(state_->connection));
  TW_TRY(const std::vector<int64_t> groups, groups_at(state_->connection, place));
  // The index has all of these columns.
  TW_TRY(Statement select,
         Statement::prepare(state_->connection,
                            "SELECT schedule, session_id, status FROM trials WHERE group_id = ?"));
  for (const int64_t group : groups) {
    std::map<std::string, Verdicts> verdicts;
    TW_RETURN_IF_ERROR(select.bind(group).each([&](const Row& row) {
      Verdicts& of = verdicts[std::string(row.blob(0))];
      const std::optional<TrialStatus> status = parse_trial_status(row.text(2));
      if (!status || proves_nothing(*status)) return true;
      if (proves_wrong(*status) && !host.empty())
        of.accusers.insert(row.integer(1));
      else
        of.is_settled = true;
      return true;
    }));
    tried.known += std::ssize(verdicts);
    for (const auto& [schedule, of] : verdicts) {
      bool is_settled = of.is_settled || of.accusers.size() > 1;
      if (!is_settled && !of.accusers.empty()) {
        TW_TRY(is_settled, accuses(state_->connection, group, schedule, host));
      }
      if (is_settled) tried.settled.insert(schedule);
    }
  }
  return tried;
}

}  // namespace tw::db
