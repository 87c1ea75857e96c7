// SPDX-License-Identifier: Apache-2.0
// Implements recall(), recall_below() and tried() (recall.h).

#include "db/recall.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/hash.h"
#include "base/text.h"
#include "db/ranking.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/best.h"
#include "db/tables/groups.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

// Upper bound on the number of trials of a group.
constexpr int64_t most_known = 1'000'000'000;

using RowsAndSchedules = std::vector<std::pair<int64_t, std::string>>;

/// True if the record is at the place. In a database that somebody changed, a row may be in a group
/// to which its record does not belong.
bool is_at(const Record& record, const Key& place) {
  return record.workload == place.workload && record.target == place.target &&
         record.device == place.device && record.threads == place.threads &&
         record.codegen_abi == place.codegen_abi && record.layouts == place.layouts;
}

Result<RowsAndSchedules> rows_and_schedules(Statement& statement) {
  RowsAndSchedules rows;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    rows.emplace_back(row.integer(0), row.blob(1));
    return true;
  }));
  return rows;
}

/// Doubts about trials, by row number.
using Doubts = std::map<int64_t, Doubt>;

Result<Doubts> doubts_of_all(Connection& connection, int64_t group) {
  TW_TRY(const JudgedGroup judged, judged_group(connection, group));
  Doubts doubts;
  for (size_t i = 0; i < judged.trials.size(); ++i)
    doubts[judged.trials[i].trial] = judged.judgements[i].doubt;
  return doubts;
}

/// Judges at most `most` trials of a group. Three quarters are the fastest trials, without trials
/// whose measured peak was disturbed, because these look too fast. One quarter are the first trials
/// in the order of the hashes of their schedules, which are a sample of all trials.
Result<Doubts> doubts_of_some(Connection& connection, int64_t group, int64_t most) {
  TrialsInTable trials(connection, group);
  TW_TRY(const std::vector<TimingSession> sessions, trials.sessions());
  TW_TRY(Statement fastest,
         Statement::prepare(
             connection,
             "SELECT seq, schedule FROM trials WHERE group_id = ? AND cost > 0 AND "
             "peak_gflops >= ? ORDER BY cost, peak_gflops, session_id, schedule LIMIT ?"));
  fastest.bind(group).bind(least_undisturbed_peak(group_peak(sessions))).bind(most - most / 4);
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

void sort_by_latency(std::vector<RecalledTrial>& trials) {
  std::ranges::sort(trials, [](const RecalledTrial& a, const RecalledTrial& b) {
    return std::tie(a.record.latency_ns, a.record.hash) <
           std::tie(b.record.latency_ns, b.record.hash);
  });
}

/// The verdicts of the trials of one schedule.
struct Verdicts {
  std::string schedule;
  std::set<int64_t> accusers;  ///< sessions that prove the schedule wrong
  bool is_settled = false;     ///< a trial proves something else (TriedSchedules)
};

/// True if one of the sessions that prove a schedule wrong (`verdicts`) ran on the given host.
/// `sessions` are all sessions of the group.
Result<bool> accuses(TrialsInTable& trials, const SessionRows& sessions, const Verdicts& verdicts,
                     const std::string& host) {
  for (const int64_t id : verdicts.accusers) {
    const auto session = sessions.find(id);
    if (session == sessions.end()) continue;
    if (session->second.host == host) return true;
    if (!session->second.host.empty()) continue;
    TW_TRY(const std::vector<RankedTrial> found, trials.trials_of(verdicts.schedule));
    return std::ranges::any_of(found, [&](const RankedTrial& trial) {
      return proves_wrong(trial.status) && trial.host == host;
    });
  }
  return false;
}

}  // namespace

std::string schedule_key(std::string_view schedule) {
  return bytes_of_hex(sha256_hex(schedule).substr(0, 2 * schedule_key_bytes));
}

Result<RecalledTrials> recall(Store& store, const Key& place, int64_t most) {
  RecalledTrials recalled;
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  TW_TRY(const std::optional<Group> group,
         find_group(store.state().connection, group_key_at(place)));
  if (!group) return recalled;
  TW_TRY(const Doubts doubts, group->trials <= most
                                  ? doubts_of_all(store.state().connection, group->id)
                                  : doubts_of_some(store.state().connection, group->id, most));
  std::vector<int64_t> rows;
  for (const auto& [row, doubt] : doubts) rows.push_back(row);
  TW_TRY(std::vector<StoredRecord> stored, store.state().read(rows));
  for (StoredRecord& of : stored)
    if (is_at(of.record, place))
      recalled.trials.push_back({std::move(of.record), doubts.at(of.row)});
  // In a table that somebody changed, the number of trials may be wrong.
  recalled.known = std::clamp(group->trials, std::ssize(recalled.trials), most_known);
  sort_by_latency(recalled.trials);
  return recalled;
}

RecalledTrials recall_below(Store& store, const Key& place, int64_t most) {
  RecalledTrials recalled;
  std::set<std::string> hashes;  // several layers may have the same record
  store.state().each_layer([&](OpenLayer& layer) -> Status {
    TW_TRY(RecalledTrials of_layer, recall(layer.store, place, most));
    recalled.known += of_layer.known;
    for (RecalledTrial& trial : of_layer.trials)
      if (hashes.insert(trial.record.hash).second) recalled.trials.push_back(std::move(trial));
    return {};
  });
  sort_by_latency(recalled.trials);
  return recalled;
}

Result<TriedSchedules> tried(Store& store, const Key& place, const std::string& host) {
  TriedSchedules tried;
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  TW_TRY(const std::optional<Group> group,
         find_group(store.state().connection, group_key_at(place)));
  if (!group) return tried;
  // An index has these columns in this order.
  TW_TRY(Statement select,
         Statement::prepare(store.state().connection,
                            "SELECT schedule, session_id, status FROM trials WHERE group_id = ? "
                            "ORDER BY schedule"));
  std::vector<Verdicts> accused;  // schedules that one session proves wrong
  Verdicts now;
  const auto finish = [&] {
    if (now.is_settled || now.accusers.size() > 1)
      tried.settled.emplace_hint(tried.settled.end(), std::move(now.schedule));
    else if (!now.accusers.empty())
      accused.push_back(std::move(now));
    now = {};
  };
  TW_RETURN_IF_ERROR(select.bind(group->id).each([&](const Row& row) {
    if (row.blob(0) != now.schedule) {
      finish();
      now.schedule = row.blob(0);
      ++tried.known;
    }
    const std::optional<TrialStatus> status = parse_trial_status(row.text(2));
    if (!status || proves_nothing(*status)) return true;
    if (proves_wrong(*status) && !host.empty())
      now.accusers.insert(row.integer(1));
    else
      now.is_settled = true;
    return true;
  }));
  finish();
  TrialsInTable trials(store.state().connection, group->id);
  if (!accused.empty()) TW_RETURN_IF_ERROR(trials.sessions());
  for (const Verdicts& of : accused) {
    TW_TRY(const bool is_own, accuses(trials, trials.rows(), of, host));
    if (is_own) tried.settled.insert(of.schedule);
  }
  return tried;
}

}  // namespace tw::db
