// SPDX-License-Identifier: Apache-2.0
#include "db/tables/best.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "base/text.h"
#include "db/engine/sqlite_connection.h"
#include "db/tables/rows.h"
#include "dsl/least_flops.h"

namespace tw::db {
namespace {

// Number of timings that the first statement of by_cost() reads, and the factor by which each
// further statement reads more.
constexpr int64_t first_timings = 16, timings_growth = 16;
// Number of rows that are in memory at a time, if all rows of the table are read.
constexpr int64_t trials_at_once = 512;

std::string select_candidates(std::string_view condition) {
  return fmt::format(
      "SELECT seq, hash, status, latency_ns, flops, peak_gflops, bytes, peak_gb_per_s, schedule, "
      "session_id, texts FROM trials WHERE {}",
      condition);
}

/// Adds the trial of a row to `trials`, unless the row cannot be read. `sessions` are the sessions
/// of the trial's group.
void add_candidate(const Row& row, const SessionRows& sessions, std::vector<RankedTrial>& trials) {
  const std::optional<TrialStatus> status = parse_trial_status(row.text(2));
  const auto session = sessions.find(row.integer(9));
  if (!status || session == sessions.end()) return;
  RankedTrial trial = {.trial = row.integer(0),
                       .hash = std::string(row.blob(1)),
                       .schedule_hash = std::string(row.blob(8)),
                       .status = *status,
                       .latency_ns = row.real(3),
                       .flops = row.real(4),
                       .peak_gflops = row.real(5),
                       .session = session->second.name,
                       .host = session->second.host,
                       .bytes = row.real(6),
                       .peak_gb_per_s = row.real(7),
                       .toolchain = session->second.toolchain};
  if (trial.host.empty() || trial.toolchain.empty()) {
    Record record;
    if (!read_texts(row.blob(10), record)) return;
    trial.host = std::move(record.host);
    trial.toolchain = std::move(record.toolchain);
  }
  trials.push_back(std::move(trial));
}

/// Sets the member `needed_share` of those trials of a group that ask for it. The workload is read
/// unless `share` is known from an earlier call.
Status add_shares(Connection& connection, int64_t group, std::optional<double>& share,
                  std::vector<RankedTrial>& trials) {
  for (RankedTrial& trial : trials) {
    if (!asks_for_share(trial)) continue;
    if (!share) {
      TW_TRY(Statement select,
             Statement::prepare(connection, "SELECT workload FROM groups WHERE id = ?"));
      TW_RETURN_IF_ERROR(
          select.bind(group).one([&](const Row& row) { share = dsl::needed_share(row.text(0)); }));
    }
    trial.needed_share = share.value_or(1);
  }
  return {};
}

Result<SessionRows> sessions_in(Connection& connection, int64_t group) {
  TW_TRY(Statement select,
         Statement::prepare(connection,
                            "SELECT id, session, host, toolchain, peak_gflops, least_cost, ratio, "
                            "accuses FROM sessions WHERE group_id = ?"));
  SessionRows sessions;
  TW_RETURN_IF_ERROR(select.bind(group).each([&](const Row& row) {
    sessions[row.integer(0)] = {row.text(1), row.text(2), row.text(3),        row.real(4),
                                row.real(5), row.real(6), row.integer(7) != 0};
    return true;
  }));
  return sessions;
}

/// A row of the table `best`.
struct BestRow {
  int64_t trial = 0;
  std::string hash;
  double measured_ns = 0;
  double latency_ns = 0;
  double efficiency = 0;
  friend bool operator==(const BestRow&, const BestRow&) = default;
};

/// Returns the row of `best` for a group by the rule (ranking.h); nullopt if no trial is believed.
/// Requires: `group` has all trials of the group.
std::optional<BestRow> best_row_of(const std::vector<RankedTrial>& group) {
  const auto best = best_of(group);
  if (!best) return std::nullopt;
  const RankedTrial& trial = group[best->index];
  return BestRow{trial.trial, trial.hash, trial.latency_ns, best->latency_ns, best->efficiency};
}

BestRow row_of(const BestTrial& best) {
  return {best.trial.trial, best.trial.hash, best.trial.latency_ns, best.latency_ns,
          best.efficiency};
}

Result<std::optional<BestRow>> best_row_of(Connection& connection, int64_t group) {
  TrialsInTable trials(connection, group);
  TW_TRY(const std::optional<BestTrial> best, best_trial_of(trials));
  if (best) return std::optional(row_of(*best));
  TW_TRY(const std::vector<RankedTrial> all, candidates_of(connection, group));
  return best_row_of(all);
}

Result<std::optional<BestRow>> stored_row_of(Connection& connection, int64_t group) {
  TW_TRY(Statement select,
         Statement::prepare(connection,
                            "SELECT trial, hash, measured_ns, latency_ns, efficiency FROM best "
                            "WHERE group_id = ?"));
  std::optional<BestRow> found;
  TW_RETURN_IF_ERROR(select.bind(group).one([&](const Row& row) {
    found = {row.integer(0), std::string(row.blob(1)), row.real(2), row.real(3), row.real(4)};
  }));
  return found;
}

/// Returns the number of rows of the table `sessions` that do not agree with the trials of the
/// group. If the table has too many or too few rows for the group, returns 1.
Result<int64_t> count_wrong_sessions(Connection& connection, int64_t group,
                                     std::span<const RankedTrial> trials) {
  TrialsInTable table(connection, group);
  TW_TRY(std::vector<TimingSession> stored, table.sessions());
  std::ranges::sort(stored, {}, &TimingSession::name);
  const std::vector<TimingSession> expected = timing_sessions(trials);
  if (stored.size() != expected.size()) return 1;
  int64_t wrong = 0;
  for (size_t i = 0; i < stored.size(); ++i)
    // An empty host in the table is right too: it is left empty after trials were deleted, even if
    // all remaining trials have one host.
    wrong +=
        stored[i].name != expected[i].name || stored[i].peak_gflops != expected[i].peak_gflops ||
        stored[i].least_cost != expected[i].least_cost || stored[i].ratio != expected[i].ratio ||
        (!stored[i].host.empty() && stored[i].host != expected[i].host);
  return wrong;
}

Result<std::vector<int64_t>> ids_of_groups(Connection& connection) {
  std::vector<int64_t> ids;
  TW_TRY(Statement select, Statement::prepare(connection, "SELECT id FROM groups ORDER BY id"));
  TW_RETURN_IF_ERROR(select.each([&](const Row& row) {
    ids.push_back(row.integer(0));
    return true;
  }));
  return ids;
}

}  // namespace

Result<std::vector<TimingSession>> TrialsInTable::sessions() {
  TW_TRY(sessions_, sessions_in(connection_, group_));
  std::vector<TimingSession> sessions;
  for (const auto& [id, row] : sessions_) {
    ids_[row.name] = id;
    if (row.least_cost > 0)
      sessions.push_back({row.name, row.host, row.peak_gflops, row.least_cost, row.ratio});
  }
  return sessions;
}

Result<std::vector<RankedTrial>> TrialsInTable::trials_of(const std::string& schedule) {
  TW_TRY(Statement select,
         Statement::prepare(connection_, select_candidates("group_id = ? AND schedule = ?")));
  std::vector<RankedTrial> trials;
  select.bind(group_).bind_blob(schedule);
  TW_RETURN_IF_ERROR(select.each([&](const Row& row) {
    add_candidate(row, sessions_, trials);
    return true;
  }));
  TW_RETURN_IF_ERROR(add_shares(connection_, group_, needed_share_, trials));
  return trials;
}

Result<std::vector<std::string>> TrialsInTable::shared_by(const std::string& session) {
  if (!shared_) {
    TW_TRY(Statement select,
           Statement::prepare(connection_,
                              "SELECT s.id, h.schedule FROM sessions s JOIN shared h ON "
                              "h.session_id = s.id WHERE s.group_id = ?"));
    shared_.emplace();
    TW_RETURN_IF_ERROR(select.bind(group_).each([&](const Row& row) {
      (*shared_)[row.integer(0)].emplace_back(row.blob(1));
      return true;
    }));
  }
  return (*shared_)[ids_[session]];
}

Status TrialsInTable::by_cost(double least_cost, double least_peak,
                              const std::function<Result<bool>(const Timing&)>& visit) {
  int64_t seen = 0;
  for (int64_t limit = first_timings;; limit *= timings_growth) {
    TW_TRY(const std::vector<OwnedTiming> timings,
           read_timings(least_cost, least_peak, limit, seen));
    for (const OwnedTiming& timing : timings) {
      TW_TRY(const bool goes_on,
             visit({timing.schedule, sessions_[timing.session].name, timing.cost}));
      if (!goes_on) return {};
    }
    if (std::ssize(timings) < limit) return {};
    seen += limit;
  }
}

Result<std::vector<TrialsInTable::OwnedTiming>> TrialsInTable::read_timings(double least_cost,
                                                                            double least_peak,
                                                                            int64_t limit,
                                                                            int64_t offset) {
  TW_TRY(Statement select,
         Statement::prepare(connection_,
                            "SELECT cost, session_id, schedule FROM trials WHERE group_id = ? "
                            "AND cost > 0 AND cost >= ? AND peak_gflops >= ? ORDER BY cost, "
                            "peak_gflops, session_id, schedule LIMIT "
                            "? OFFSET ?"));
  select.bind(group_).bind(least_cost).bind(least_peak).bind(limit).bind(offset);
  std::vector<OwnedTiming> timings;
  TW_RETURN_IF_ERROR(select.each([&](const Row& row) {
    timings.push_back({row.real(0), row.integer(1), std::string(row.blob(2))});
    return true;
  }));
  return timings;
}

std::string create_best_sql(const Dialect& d) {
  return fmt::format(
      "CREATE TABLE best(group_id {0} NOT NULL PRIMARY KEY, trial {0} NOT NULL, hash {1} NOT NULL, "
      "measured_ns {2} NOT NULL, latency_ns {2} NOT NULL, efficiency {2} NOT NULL){3}",
      d.integer, d.blob, d.real, d.keyed_table_end);
}

Result<std::vector<RankedTrial>> candidates_of(Connection& connection, int64_t group) {
  TW_TRY(const SessionRows sessions, sessions_in(connection, group));
  TW_TRY(Statement statement, Statement::prepare(connection, select_candidates("group_id = ?")));
  std::vector<RankedTrial> candidates;
  TW_RETURN_IF_ERROR(statement.bind(group).each([&](const Row& row) {
    add_candidate(row, sessions, candidates);
    return true;
  }));
  std::optional<double> share;
  TW_RETURN_IF_ERROR(add_shares(connection, group, share, candidates));
  return candidates;
}

Result<JudgedGroup> judged_group(Connection& connection, int64_t id) {
  JudgedGroup group;
  TW_TRY(group.trials, candidates_of(connection, id));
  // This order is the same in every database with these trials.
  std::ranges::sort(group.trials, {}, &RankedTrial::hash);
  group.judgements = judge(group.trials);
  return group;
}

namespace {

/// True if a session of the group has trials with a peak from `low` to below `high`.
Result<bool> has_peaks_between(Connection& connection, int64_t group, double low, double high) {
  TW_TRY(Statement select,
         Statement::prepare(connection,
                            "SELECT 1 FROM sessions s JOIN peaks p ON p.session_id = s.id WHERE "
                            "s.group_id = ? AND p.peak_gflops >= ? AND p.peak_gflops < ? LIMIT 1"));
  return select.bind(group).bind(low).bind(high).one([](const Row&) {});
}

Result<std::set<std::string>> schedules_shared(Connection& connection, std::string_view condition,
                                               int64_t value) {
  TW_TRY(Statement select,
         Statement::prepare(connection, fmt::format("SELECT DISTINCT h.schedule FROM sessions s "
                                                    "JOIN shared h ON h.session_id = s.id WHERE {}",
                                                    condition)));
  std::set<std::string> schedules;
  TW_RETURN_IF_ERROR(select.bind(value).each([&](const Row& row) {
    schedules.emplace(row.blob(0));
    return true;
  }));
  return schedules;
}

/// Stores the ratios of sessions on a schedule. Sessions that have trials of the schedule and are
/// not compared get 0. Adds the ids of sessions with a changed ratio to `changed`.
Status store_ratios(Connection& connection, int64_t group, const std::string& schedule,
                    const SessionRatios& ratios, const SessionRows& sessions,
                    std::set<int64_t>& changed) {
  TW_TRY(Statement select,
         Statement::prepare(connection,
                            "SELECT DISTINCT session_id FROM trials WHERE group_id = ? AND "
                            "schedule = ?"));
  std::vector<int64_t> ids;
  TW_RETURN_IF_ERROR(select.bind(group).bind_blob(schedule).each([&](const Row& row) {
    ids.push_back(row.integer(0));
    return true;
  }));
  TW_TRY(Statement update,
         Statement::prepare(connection,
                            "UPDATE shared SET ratio = ? WHERE session_id = ? AND schedule = ? AND "
                            "ratio <> ?"));
  for (const int64_t id : ids) {
    const auto session = sessions.find(id);
    if (session == sessions.end()) continue;
    const auto found = ratios.find(session->second.name);
    const double ratio = found == ratios.end() ? 0 : found->second;
    TW_RETURN_IF_ERROR(update.bind(ratio).bind(id).bind_blob(schedule).bind(ratio).run());
    if (connection.changes() > 0) changed.insert(id);
  }
  return {};
}

Status update_ratio(Connection& connection, int64_t session) {
  TW_TRY(Statement select,
         Statement::prepare(connection,
                            "SELECT ratio FROM shared WHERE session_id = ? AND ratio > 0"));
  std::vector<double> ratios;
  TW_RETURN_IF_ERROR(select.bind(session).each([&](const Row& row) {
    ratios.push_back(row.real(0));
    return true;
  }));
  TW_TRY(Statement update,
         Statement::prepare(connection, "UPDATE sessions SET ratio = ? WHERE id = ?"));
  return update.bind(ratio_of(ratios)).bind(session).run();
}

Result<double> stored_peak(Connection& connection, int64_t group) {
  TW_TRY(Statement select,
         Statement::prepare(connection, "SELECT peak_gflops FROM groups WHERE id = ?"));
  double peak = 0;
  TW_RETURN_IF_ERROR(select.bind(group).one([&](const Row& row) { peak = row.real(0); }));
  return peak;
}

/// Compares the sessions of a group on these schedules again and stores the ratios.
Status compare_on(Connection& connection, int64_t group, TrialsInTable& trials,
                  const std::set<std::string>& schedules) {
  if (schedules.empty()) return {};
  TW_TRY(const auto ratios, ratios_on(trials, schedules));
  std::set<int64_t> changed;
  for (const auto& [schedule, of] : ratios)
    TW_RETURN_IF_ERROR(store_ratios(connection, group, schedule, of, trials.rows(), changed));
  for (const int64_t session : changed) TW_RETURN_IF_ERROR(update_ratio(connection, session));
  return {};
}

}  // namespace

Status compare_sessions(Connection& connection, const GroupChange& change) {
  TrialsInTable trials(connection, change.group);
  TW_TRY(const std::vector<TimingSession> sessions, trials.sessions());
  const double peak = group_peak(sessions);
  TW_TRY(const double before, stored_peak(connection, change.group));
  std::set<std::string> stale = change.shared;
  if (peak != before) {
    const double low = least_undisturbed_peak(std::min(peak, before)),
                 high = least_undisturbed_peak(std::max(peak, before));
    bool counts_others = (peak > 0) != (before > 0);
    if (!counts_others) {
      TW_TRY(counts_others, has_peaks_between(connection, change.group, low, high));
    }
    if (counts_others) {
      TW_TRY(stale, schedules_shared(connection, "s.group_id = ?", change.group));
    }
    TW_TRY(Statement update,
           Statement::prepare(connection, "UPDATE groups SET peak_gflops = ? WHERE id = ?"));
    TW_RETURN_IF_ERROR(update.bind(peak).bind(change.group).run_soon());
  }
  // A session that proves a schedule wrong is believed only if it has a timing (ranking.cpp). So
  // when a session gets its first timing, the judgement of these schedules may change.
  for (const int64_t id : change.timed) {
    const auto session = trials.rows().find(id);
    if (session == trials.rows().end() || !session->second.accuses) continue;
    TW_TRY(const std::set<std::string> accused, schedules_shared(connection, "s.id = ?", id));
    stale.insert(accused.begin(), accused.end());
  }
  return compare_on(connection, change.group, trials, stale);
}

namespace {

Status store_best(Connection& connection, int64_t group, const BestRow& best) {
  TW_TRY(Statement insert,
         Statement::prepare(connection,
                            "INSERT INTO best(group_id, trial, hash, measured_ns, latency_ns, "
                            "efficiency) VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(group_id) DO UPDATE "
                            "SET trial = excluded.trial, hash = excluded.hash, measured_ns = "
                            "excluded.measured_ns, latency_ns = excluded.latency_ns, efficiency = "
                            "excluded.efficiency"));
  insert.bind(group).bind(best.trial).bind_blob(best.hash).bind(best.measured_ns);
  insert.bind(best.latency_ns).bind(best.efficiency);
  return insert.run_soon();
}

}  // namespace

RankedTrial ranked_trial_of_row(const Record& record, int64_t row) {
  RankedTrial trial = ranked_trial(record);
  trial.trial = row;
  trial.hash = bytes_of_hex(record.hash);
  trial.schedule_hash = schedule_key(record);
  return trial;
}

Status derive_new_group(Connection& connection, int64_t group,
                        const std::vector<RankedTrial>& trials) {
  if (const double peak = group_peak(timing_sessions(trials)); peak != 0) {
    TW_TRY(Statement update,
           Statement::prepare(connection, "UPDATE groups SET peak_gflops = ? WHERE id = ?"));
    TW_RETURN_IF_ERROR(update.bind(peak).bind(group).run_soon());
  }
  TW_TRY(const std::optional<BestTrial> fastest, best_trial_of(trials));
  const std::optional<BestRow> best =
      fastest ? std::optional(row_of(*fastest)) : best_row_of(trials);
  return best ? store_best(connection, group, *best) : Status();
}

Status refresh_best(Connection& connection, int64_t group) {
  TW_TRY(const std::optional<BestRow> best, best_row_of(connection, group));
  if (best) return store_best(connection, group, *best);
  TW_TRY(Statement remove, Statement::prepare(connection, "DELETE FROM best WHERE group_id = ?"));
  return remove.bind(group).run_soon();
}

namespace {

/// Recomputes everything that is derived from the counts of a group.
Status refresh_derived(Connection& connection, int64_t group) {
  TrialsInTable trials(connection, group);
  TW_TRY(const std::vector<TimingSession> sessions, trials.sessions());
  TW_TRY(Statement update,
         Statement::prepare(connection, "UPDATE groups SET peak_gflops = ? WHERE id = ?"));
  TW_RETURN_IF_ERROR(update.bind(group_peak(sessions)).bind(group).run());
  TW_TRY(const std::set<std::string> shared, schedules_shared(connection, "s.group_id = ?", group));
  TW_RETURN_IF_ERROR(compare_on(connection, group, trials, shared));
  return refresh_best(connection, group);
}

}  // namespace

Status refresh_group(Connection& connection, int64_t group) {
  TW_RETURN_IF_ERROR(recount_group(connection, group));
  return refresh_derived(connection, group);
}

namespace {

/// Some consecutive rows of the table of trials.
struct TrialPage {
  std::vector<Record> records;  ///< records of the rows, without those that record_of() refuses
  std::vector<RowNumber> numbers;
  int64_t last = 0;  ///< number of the last row; 0: there are no rows
};

Result<TrialPage> trials_after(Connection& connection, int64_t seq) {
  TW_TRY(Statement select,
         Statement::prepare(connection, fmt::format("{} WHERE seq > ? ORDER BY seq LIMIT {}",
                                                    select_trials_sql(), trials_at_once)));
  TrialPage page;
  TW_RETURN_IF_ERROR(select.bind(seq).each([&](const Row& row) {
    const RowNumber number = number_of(row);
    page.last = number.seq;
    Result<Record> record = record_of(row);
    if (!record) return true;
    page.records.push_back(std::move(*record));
    page.numbers.push_back(number);
    return true;
  }));
  if (page.last != 0 && page.last <= seq)
    return tl::unexpected(damaged("read", connection.path(), "its rows are out of order"));
  return page;
}

/// Puts the trials of a page into the groups and sessions of their records, and counts them.
Status derive_page(Connection& connection, const TrialPage& page) {
  Memberships memberships(connection);
  TrialCounts counts;
  TW_TRY(Statement move,
         Statement::prepare(connection,
                            "UPDATE trials SET group_id = ?, session_id = ?, schedule = ?, cost = "
                            "? WHERE seq = ?"));
  TW_TRY(Statement ask,
         Statement::prepare(connection, "SELECT schedule, cost FROM trials WHERE seq = ?"));
  for (size_t i = 0; i < page.records.size(); ++i) {
    const Record& record = page.records[i];
    const RowNumber& number = page.numbers[i];
    TW_TRY(const Membership own, memberships.of(record));
    bool is_right = number.group == own.group && number.session == own.session;
    TW_RETURN_IF_ERROR(ask.bind(number.seq).one([&](const Row& row) {
      is_right &= row.blob(0) == schedule_key(record) && row.real(1) == cost_of(record);
    }));
    if (!is_right) {
      move.bind(own.group).bind(own.session).bind_blob(schedule_key(record));
      TW_RETURN_IF_ERROR(move.bind(cost_of(record)).bind(number.seq).run());
    }
    counts.add(record, own, number.seq);
  }
  return counts.store(connection);
}

/// Returns the number of trials of a page whose rows have another group or session than their
/// records.
Result<int64_t> count_misplaced(Connection& connection, const TrialPage& page) {
  std::map<int64_t, SessionRows> sessions;
  int64_t wrong = 0;
  for (size_t i = 0; i < page.records.size(); ++i) {
    const Record& record = page.records[i];
    const RowNumber& number = page.numbers[i];
    TW_TRY(const std::optional<Group> group, find_group(connection, group_key_of(record)));
    if (!sessions.contains(number.group)) {
      TW_TRY(sessions[number.group], sessions_in(connection, number.group));
    }
    const auto session = sessions[number.group].find(number.session);
    const auto agrees = [](const std::string& known, const std::string& value) {
      return known.empty() || known == value;
    };
    wrong += !group || group->id != number.group || session == sessions[number.group].end() ||
             session->second.name != record.session || !agrees(session->second.host, record.host) ||
             !agrees(session->second.toolchain, record.toolchain);
  }
  return wrong;
}

}  // namespace

Status refresh_all(Connection& connection) {
  TW_RETURN_IF_ERROR(connection.execute(
      "DELETE FROM best; DELETE FROM peaks; DELETE FROM shared; DELETE FROM statuses; UPDATE "
      "groups SET trials = 0, last = 0, newest_ms = 0; UPDATE sessions SET host = '', toolchain = "
      "'', ratio = 1, accuses = 1, peak_gflops = 0, least_cost = 0"));
  for (int64_t seq = 0;;) {
    TW_TRY(const TrialPage page, trials_after(connection, seq));
    if (page.last == 0) break;
    TW_RETURN_IF_ERROR(derive_page(connection, page));
    seq = page.last;
  }
  TW_RETURN_IF_ERROR(connection.execute(
      "DELETE FROM groups WHERE trials = 0; DELETE FROM sessions WHERE NOT EXISTS (SELECT 1 FROM "
      "trials WHERE trials.session_id = sessions.id AND trials.group_id = sessions.group_id)"));
  TW_TRY(const std::vector<int64_t> groups, ids_of_groups(connection));
  for (const int64_t group : groups) TW_RETURN_IF_ERROR(refresh_derived(connection, group));
  return {};
}

Result<int64_t> count_wrong_rows(Connection& connection) {
  TW_TRY(int64_t wrong, count_wrong_counts(connection));
  TW_TRY(const std::vector<int64_t> groups, ids_of_groups(connection));
  int64_t stored_rows = 0;
  for (const int64_t group : groups) {
    TW_TRY(const std::optional<BestRow> stored, stored_row_of(connection, group));
    TW_TRY(const std::vector<RankedTrial> trials, candidates_of(connection, group));
    const std::optional<BestRow> computed = best_row_of(trials);
    stored_rows += stored.has_value();
    if (stored != computed) wrong += stored.has_value() + computed.has_value();
    TW_TRY(const int64_t sessions, count_wrong_sessions(connection, group, trials));
    TW_TRY(const double peak, stored_peak(connection, group));
    wrong += sessions + (peak != group_peak(timing_sessions(trials)));
  }
  for (int64_t seq = 0;;) {
    TW_TRY(const TrialPage page, trials_after(connection, seq));
    if (page.last == 0) break;
    TW_TRY(const int64_t misplaced, count_misplaced(connection, page));
    wrong += misplaced;
    seq = page.last;
  }
  TW_TRY(const int64_t all_rows, connection.integer("SELECT count(*) FROM best"));
  return wrong + all_rows - stored_rows;
}

}  // namespace tw::db
