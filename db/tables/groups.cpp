// SPDX-License-Identifier: Apache-2.0
#include "db/tables/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/hash.h"
#include "base/text.h"
#include "db/engine/sqlite_connection.h"
#include "db/fields.h"
#include "db/store.h"

namespace tw::db {
namespace {

constexpr int64_t groups_at_once = 256;

constexpr std::string_view key_columns =
    "workload_hash, target, threads, codegen_abi, device, layouts";
// Indexes of the columns `trials` and `digest` in a row that begins with the id and key_columns.
constexpr int trials_column = 7, digest_column = 8;

/// Reads a group from the first columns of a row: the id, `key_columns`, `trials`.
Group read_group(const Row& row) {
  return {row.integer(0),
          {hex_of_bytes(row.blob(1)), row.text(2), row.integer(3), row.integer(4), row.text(5),
           row.text(6)},
          row.integer(trials_column)};
}

Result<std::vector<Group>> read_groups(Statement& statement) {
  std::vector<Group> groups;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    groups.push_back(read_group(row));
    return true;
  }));
  return groups;
}

// Sessions are compared on a schedule if at least this number of them has trials of the schedule
// (fewest_voters in ranking.cpp).
constexpr int64_t fewest_sharing = 3;
// Number of schedules that one statement asks about. A server then needs only one request for all
// of them.
constexpr size_t asked_together = 32;

constexpr std::string_view of_sessions_of_group =
    "session_id IN (SELECT id FROM sessions WHERE group_id = ?)";

Status run_with(Connection& connection, const std::string& sql, int64_t value) {
  TW_TRY(Statement statement, Statement::prepare(connection, sql));
  return statement.bind(value).run();
}

using PeakCounts = std::map<double, int64_t>;  ///< number of trials for each peak in GFLOP/s

/// Returns the lower median of the peaks of trials; 0 if there are none.
double median_of(const PeakCounts& counts) {
  int64_t total = 0;
  for (const auto& [peak, trials] : counts) total += trials;
  int64_t before = (total - 1) / 2;
  for (const auto& [peak, trials] : counts) {
    if (before < trials) return peak;
    before -= trials;
  }
  return 0;
}

Result<double> stored_median_peak(Connection& connection, int64_t session) {
  TW_TRY(
      Statement select,
      Statement::prepare(connection, "SELECT peak_gflops, trials FROM peaks WHERE session_id = ?"));
  PeakCounts counts;
  TW_RETURN_IF_ERROR(select.bind(session).each([&](const Row& row) {
    counts[row.real(0)] += row.integer(1);
    return true;
  }));
  return median_of(counts);
}

/// Returns those of the given schedules of which at least `fewest_sharing` sessions of the group
/// have trials.
Result<std::set<std::string>> shared_among(Connection& connection, int64_t group,
                                           const std::set<std::string>& schedules) {
  const Dialect& d = connection.dialect();
  const std::vector<std::string> marks(asked_together, fmt::format("(CAST(? AS {}))", d.blob));
  TW_TRY(Statement select,
         Statement::prepare(
             connection,
             fmt::format("SELECT asked.column1, (SELECT count(DISTINCT session_id) FROM trials "
                         "WHERE group_id = CAST(? AS {}) AND schedule = asked.column1) FROM "
                         "(VALUES {}) AS asked",
                         d.integer, fmt::join(marks, ", "))));
  std::set<std::string> shared;
  for (auto next = schedules.begin(); next != schedules.end();) {
    select.bind(group);
    for (size_t asked = 0; asked < asked_together; ++asked) {
      select.bind_blob(*next);
      // In the last statement, the last schedule is bound to all parameters that are left.
      if (std::next(next) != schedules.end() || asked + 1 == asked_together) ++next;
    }
    TW_RETURN_IF_ERROR(select.each([&](const Row& row) {
      if (row.integer(1) >= fewest_sharing) shared.emplace(row.blob(0));
      return true;
    }));
  }
  return shared;
}

Status update_peak(Connection& connection, int64_t session) {
  TW_TRY(const double peak, stored_median_peak(connection, session));
  TW_TRY(Statement update,
         Statement::prepare(connection, "UPDATE sessions SET peak_gflops = ? WHERE id = ?"));
  return update.bind(peak).bind(session).run();
}

}  // namespace

GroupKey group_key_of(const Record& record) {
  return {record.workload_hash, record.target, record.threads,
          record.codegen_abi,   record.device, record.layouts};
}

GroupKey group_key_at(const Key& place) {
  return {sha256_hex(place.workload), place.target, place.threads,
          place.codegen_abi,          place.device, place.layouts};
}

std::string group_digest(const GroupKey& key) {
  std::string text;
  append_field(text, "workload_hash", key.workload_hash);
  append_field(text, "target", key.target);
  append_field(text, "threads", std::to_string(key.threads));
  append_field(text, "codegen_abi", std::to_string(key.codegen_abi));
  append_field(text, "device", key.device);
  append_field(text, "layouts", key.layouts);
  return bytes_of_hex(sha256_hex(text));
}

std::string create_groups_last_sql(const Dialect& d) {
  return fmt::format("CREATE INDEX groups_last ON groups(last{})", d.list_columns);
}

std::vector<std::pair<std::string, std::string>> group_objects(const Dialect& d) {
  return {
      {"groups",
       fmt::format(
           "CREATE TABLE groups(id {0}, digest {1} NOT NULL UNIQUE, workload_hash {1} NOT "
           "NULL, target {2} NOT NULL, threads {3} NOT NULL, codegen_abi {3} NOT NULL, "
           "device {2} NOT NULL, layouts {2} NOT NULL, op {2} NOT NULL, workload {2} NOT "
           "NULL, flops {4} NOT NULL, trials {3} NOT NULL, last {3} NOT NULL, newest_ms {3} "
           "NOT NULL, peak_gflops {4} NOT NULL){5}",
           d.row_number, d.blob, d.text, d.integer, d.real, d.table_end)},
      {"groups_workload",
       "CREATE INDEX groups_workload ON groups(workload_hash, threads, codegen_abi)"},
      {"groups_op", fmt::format("CREATE INDEX groups_op ON groups({}, flops)", d.op_index)},
      {"groups_last", create_groups_last_sql(d)},
      {"sessions",
       fmt::format(
           "CREATE TABLE sessions(id {0}, group_id {1} NOT NULL, session {2} NOT NULL, "
           "host {2} NOT NULL, toolchain {2} NOT NULL, peak_gflops {3} NOT NULL, least_cost {3} "
           "NOT NULL, ratio {3} NOT NULL, accuses {1} NOT NULL){4}",
           d.row_number, d.integer, d.text, d.real, d.table_end)},
      {"sessions_group", "CREATE INDEX sessions_group ON sessions(group_id)"},
      {"peaks",
       fmt::format("CREATE TABLE peaks(session_id {0} NOT NULL, peak_gflops {1} NOT NULL, trials "
                   "{0} NOT NULL, PRIMARY KEY(session_id, peak_gflops)){2}",
                   d.integer, d.real, d.keyed_table_end)},
      {"shared",
       fmt::format("CREATE TABLE shared(session_id {} NOT NULL, schedule {} NOT NULL, ratio {} NOT "
                   "NULL, PRIMARY KEY(session_id, schedule)){}",
                   d.integer, d.blob, d.real, d.keyed_table_end)},
      {"statuses",
       fmt::format("CREATE TABLE statuses(status {} NOT NULL PRIMARY KEY, trials {} NOT NULL){}",
                   d.text, d.integer, d.keyed_table_end)},
  };
}

Status each_group(Connection& connection, const std::function<Status(const Group&)>& visit) {
  TW_TRY(Statement page,
         Statement::prepare(
             connection,
             fmt::format("SELECT id, {}, trials, digest FROM groups WHERE digest > ? ORDER "
                         "BY digest LIMIT {}",
                         key_columns, groups_at_once)));
  for (std::string last;;) {
    std::vector<Group> groups;
    std::string next;
    TW_RETURN_IF_ERROR(page.bind_blob(last).each([&](const Row& row) {
      groups.push_back(read_group(row));
      next = row.blob(digest_column);
      return true;
    }));
    if (groups.empty()) return {};
    // In a damaged index the digests may run backwards, and this loop would then never end.
    if (next <= last)
      return tl::unexpected(damaged("groups", connection.path(), "an index is out of order"));
    for (const Group& group : groups) TW_RETURN_IF_ERROR(visit(group));
    last = std::move(next);
  }
}

Result<std::vector<Group>> groups_of(Connection& connection, const std::string& workload_hash,
                                     const std::string& layouts) {
  TW_TRY(Statement statement,
         Statement::prepare(connection,
                            fmt::format("SELECT id, {}, trials FROM groups WHERE workload_hash "
                                        "= ? AND layouts = ?",
                                        key_columns)));
  statement.bind_blob(bytes_of_hex(workload_hash)).bind(std::string_view(layouts));
  TW_TRY(std::vector<Group> groups, read_groups(statement));
  std::ranges::sort(groups, {}, &Group::key);
  return groups;
}

Result<std::optional<Group>> find_group(Connection& connection, const GroupKey& key) {
  TW_TRY(Statement statement,
         Statement::prepare(connection, "SELECT id, trials FROM groups WHERE digest = ?"));
  std::optional<Group> found;
  TW_RETURN_IF_ERROR(statement.bind_blob(group_digest(key)).one([&](const Row& row) {
    found = {row.integer(0), key, row.integer(1)};
  }));
  return found;
}

Result<Membership> Memberships::of(const Record& record) {
  TW_TRY(const KnownGroup group, group_of(record));
  TW_TRY(Session* const session, session_of(group, record));
  TW_RETURN_IF_ERROR(note_several(*session, "host", session->host, record.host));
  TW_RETURN_IF_ERROR(note_several(*session, "toolchain", session->toolchain, record.toolchain));
  return Membership{group.id, session->id, group.is_new, session->is_new};
}

Status Memberships::note_several(const Session& session, std::string_view column,
                                 std::string& known, const std::string& value) {
  if (known.empty() || known == value) return {};
  known.clear();
  TW_TRY(Statement update,
         Statement::prepare(connection_,
                            fmt::format("UPDATE sessions SET {} = '' WHERE id = ?", column)));
  return update.bind(session.id).run();
}

Result<Memberships::KnownGroup> Memberships::group_of(const Record& record) {
  const GroupKey key = group_key_of(record);
  if (const auto known = groups_.find(key); known != groups_.end()) return known->second;
  TW_TRY(const std::optional<Group> found, find_group(connection_, key));
  int64_t id = found ? found->id : 0;
  if (!found) {
    TW_TRY(Statement insert,
           Statement::prepare(
               connection_,
               fmt::format(
                   "INSERT INTO groups(digest, {}, op, workload, flops, trials, last, newest_ms, "
                   "peak_gflops) "
                   "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0) RETURNING id",
                   key_columns)));
    insert.bind_blob(group_digest(key)).bind_blob(bytes_of_hex(key.workload_hash));
    insert.bind(std::string_view(key.target)).bind(key.threads).bind(key.codegen_abi);
    insert.bind(std::string_view(key.device)).bind(std::string_view(key.layouts));
    insert.bind(std::string_view(record.op)).bind(std::string_view(record.workload));
    insert.bind(record.flops);
    TW_RETURN_IF_ERROR(insert.one([&](const Row& row) { id = row.integer(0); }));
  }
  return groups_.emplace(key, KnownGroup{id, !found}).first->second;
}

Result<Memberships::Session*> Memberships::session_of(const KnownGroup& group,
                                                      const Record& record) {
  const auto place = std::pair(group.id, record.session);
  if (const auto known = sessions_.find(place); known != sessions_.end()) return &known->second;
  std::optional<Session> found;
  if (!group.is_new) {
    TW_TRY(Statement select,
           Statement::prepare(connection_,
                              "SELECT id, host, toolchain FROM sessions WHERE group_id = ? AND "
                              "session = ?"));
    select.bind(group.id).bind(std::string_view(record.session));
    TW_RETURN_IF_ERROR(select.one([&](const Row& row) {
      found = {row.integer(0), row.text(1), row.text(2)};
    }));
  }
  if (!found) {
    TW_TRY(
        Statement insert,
        Statement::prepare(connection_,
                           "INSERT INTO sessions(group_id, session, host, toolchain, "
                           "peak_gflops, least_cost, ratio, accuses) VALUES(?, ?, ?, ?, 0, 0, 1, "
                           "0) RETURNING id"));
    insert.bind(group.id).bind(std::string_view(record.session));
    insert.bind(std::string_view(record.host)).bind(std::string_view(record.toolchain));
    TW_RETURN_IF_ERROR(insert.one([&](const Row& row) {
      found = {row.integer(0), record.host, record.toolchain, true};
    }));
  }
  return &sessions_.emplace(place, *found).first->second;
}

void TrialCounts::add(const Record& record, const Membership& membership, int64_t seq) {
  OfGroup& group = groups_[membership.group];
  group.is_new = membership.is_new_group;
  group.sessions.insert(membership.session);
  ++group.trials;
  group.last = seq;
  group.newest_ms = record.created_ms;
  group.schedules.insert(schedule_key(record));
  ++statuses_[to_string(record.status)];
  if (proves_wrong(record.status)) accusers_.insert(membership.session);
  const double cost = cost_of(record);
  if (cost == 0) return;
  group.timed.insert(membership.session);
  OfSession& session = sessions_[membership.session];
  session.is_new = membership.is_new_session;
  if (session.least_cost == 0 || cost < session.least_cost) session.least_cost = cost;
  if (record.peak_gflops > 0) ++session.peaks[record.peak_gflops];
}

std::vector<GroupChange> TrialCounts::changes() const {
  std::vector<GroupChange> changes;
  for (const auto& [id, group] : groups_)
    changes.push_back({id, group.is_new, group.is_compared, group.shared, group.timed});
  return changes;
}

Status TrialCounts::store(Connection& connection) {
  TW_RETURN_IF_ERROR(store_groups(connection));
  TW_RETURN_IF_ERROR(store_sessions(connection));
  TW_RETURN_IF_ERROR(find_shared(connection));
  return store_statuses(connection);
}

Status TrialCounts::store_groups(Connection& connection) const {
  TW_TRY(Statement update,
         Statement::prepare(connection,
                            "UPDATE groups SET trials = trials + ?, last = ?, newest_ms = ? WHERE "
                            "id = ?"));
  for (const auto& [id, group] : groups_) {
    update.bind(group.trials).bind(group.last).bind(group.newest_ms).bind(id);
    TW_RETURN_IF_ERROR(update.run_soon());
  }
  return {};
}

Status TrialCounts::store_sessions(Connection& connection) const {
  TW_TRY(Statement count,
         Statement::prepare(connection,
                            "INSERT INTO peaks(session_id, peak_gflops, trials) VALUES(?, ?, ?) ON "
                            "CONFLICT(session_id, peak_gflops) DO UPDATE SET trials = peaks.trials "
                            "+ excluded.trials"));
  TW_TRY(Statement update,
         Statement::prepare(connection,
                            "UPDATE sessions SET peak_gflops = ?, least_cost = CASE WHEN "
                            "least_cost > 0 AND least_cost < ? THEN least_cost ELSE ? END WHERE "
                            "id = ?"));
  for (const auto& [id, session] : sessions_) {
    for (const auto& [peak, trials] : session.peaks)
      TW_RETURN_IF_ERROR(count.bind(id).bind(peak).bind(trials).run_soon());
    double peak = median_of(session.peaks);
    if (!session.is_new) {
      TW_TRY(peak, stored_median_peak(connection, id));
    }
    update.bind(peak).bind(session.least_cost).bind(session.least_cost).bind(id);
    TW_RETURN_IF_ERROR(update.run_soon());
  }
  TW_TRY(Statement accuse,
         Statement::prepare(connection, "UPDATE sessions SET accuses = 1 WHERE id = ?"));
  for (const int64_t id : accusers_) TW_RETURN_IF_ERROR(accuse.bind(id).run_soon());
  return {};
}

Status TrialCounts::store_statuses(Connection& connection) const {
  TW_TRY(Statement count,
         Statement::prepare(connection,
                            "INSERT INTO statuses(status, trials) VALUES(?, ?) ON CONFLICT(status) "
                            "DO UPDATE SET trials = statuses.trials + excluded.trials"));
  for (const auto& [status, trials] : statuses_)
    TW_RETURN_IF_ERROR(count.bind(status).bind(trials).run_soon());
  return {};
}

Status TrialCounts::find_shared(Connection& connection) {
  TW_TRY(Statement sessions,
         Statement::prepare(connection, "SELECT count(*) FROM sessions WHERE group_id = ?"));
  TW_TRY(
      Statement insert,
      Statement::prepare(
          connection,
          "INSERT INTO shared(session_id, schedule, ratio) SELECT DISTINCT "
          "session_id, schedule, 0.0 FROM trials WHERE group_id = ? AND schedule = ? ON CONFLICT "
          "DO NOTHING"));
  for (auto& [id, group] : groups_) {
    int64_t count = std::ssize(group.sessions);
    if (!group.is_new)
      TW_RETURN_IF_ERROR(sessions.bind(id).one([&](const Row& row) { count = row.integer(0); }));
    group.is_compared = count >= fewest_sharing;
    if (!group.is_compared) continue;
    TW_TRY(group.shared, shared_among(connection, id, group.schedules));
    for (const std::string& schedule : group.shared)
      TW_RETURN_IF_ERROR(insert.bind(id).bind_blob(schedule).run_soon());
  }
  return {};
}

Status recount_group(Connection& connection, int64_t group) {
  for (const char* table : {"peaks", "shared"})
    TW_RETURN_IF_ERROR(run_with(
        connection, fmt::format("DELETE FROM {} WHERE {}", table, of_sessions_of_group), group));
  TW_RETURN_IF_ERROR(run_with(
      connection,
      "UPDATE sessions SET host = '', toolchain = '', ratio = 1, accuses = 1, peak_gflops = 0, "
      "least_cost = "
      "coalesce((SELECT min(cost) FROM trials "
      "WHERE trials.session_id = sessions.id AND trials.group_id = sessions.group_id AND cost > "
      "0), 0) WHERE group_id = ?",
      group));
  TW_RETURN_IF_ERROR(
      run_with(connection,
               "DELETE FROM sessions WHERE group_id = ? AND NOT EXISTS (SELECT 1 FROM trials WHERE "
               "trials.session_id = sessions.id AND trials.group_id = sessions.group_id)",
               group));
  TW_RETURN_IF_ERROR(run_with(
      connection,
      "UPDATE groups SET trials = (SELECT count(*) FROM trials WHERE group_id = groups.id), last = "
      "coalesce((SELECT max(seq) FROM trials WHERE group_id = groups.id), 0) WHERE id = ?",
      group));
  TW_RETURN_IF_ERROR(run_with(connection,
                              "UPDATE groups SET newest_ms = coalesce((SELECT created_ms FROM "
                              "trials WHERE seq = groups.last), 0) WHERE id = ?",
                              group));
  TW_RETURN_IF_ERROR(run_with(connection, "DELETE FROM groups WHERE id = ? AND trials = 0", group));
  TW_RETURN_IF_ERROR(run_with(
      connection,
      "INSERT INTO peaks(session_id, peak_gflops, trials) SELECT session_id, peak_gflops, count(*) "
      "FROM trials WHERE group_id = ? AND cost > 0 AND peak_gflops > 0 GROUP BY session_id, "
      "peak_gflops",
      group));
  TW_RETURN_IF_ERROR(run_with(
      connection,
      fmt::format(
          "INSERT INTO shared(session_id, schedule, ratio) SELECT DISTINCT t.session_id, "
          "t.schedule, 0.0 FROM (SELECT group_id, schedule FROM trials WHERE group_id = ? GROUP "
          "BY group_id, schedule HAVING count(DISTINCT session_id) >= {}) n JOIN trials t "
          "ON t.group_id = n.group_id AND t.schedule = n.schedule",
          fewest_sharing),
      group));
  std::vector<int64_t> sessions;
  {
    TW_TRY(Statement select,
           Statement::prepare(connection, "SELECT id FROM sessions WHERE group_id = ?"));
    TW_RETURN_IF_ERROR(select.bind(group).each([&](const Row& row) {
      sessions.push_back(row.integer(0));
      return true;
    }));
  }
  for (const int64_t session : sessions) TW_RETURN_IF_ERROR(update_peak(connection, session));
  return {};
}

Status recount_statuses(Connection& connection) {
  return connection.execute(
      "DELETE FROM statuses; INSERT INTO statuses(status, trials) SELECT status, count(*) FROM "
      "trials GROUP BY status");
}

Result<int64_t> count_wrong_counts(Connection& connection) {
  constexpr std::string_view expected[] = {
      "SELECT group_id, count(*), max(seq) FROM trials GROUP BY group_id",
      "SELECT g.id, t.created_ms FROM groups g JOIN trials t ON t.seq = g.last",
      "SELECT session_id, peak_gflops, count(*) FROM trials WHERE cost > 0 AND peak_gflops > 0 "
      "GROUP BY session_id, peak_gflops",
      "SELECT session_id, min(cost) FROM trials WHERE cost > 0 GROUP BY session_id",
      "SELECT DISTINCT t.session_id, t.schedule FROM trials t JOIN (SELECT group_id, schedule FROM "
      "trials GROUP BY group_id, schedule HAVING count(DISTINCT session_id) >= 3) n ON t.group_id "
      "= n.group_id AND t.schedule = n.schedule",
      "SELECT status, count(*) FROM trials GROUP BY status",
  };
  constexpr std::string_view stored[] = {
      "SELECT id, trials, last FROM groups",
      "SELECT id, newest_ms FROM groups",
      "SELECT session_id, peak_gflops, trials FROM peaks",
      "SELECT id, least_cost FROM sessions WHERE least_cost > 0",
      "SELECT session_id, schedule FROM shared",
      "SELECT status, trials FROM statuses WHERE trials > 0",
  };
  int64_t wrong = 0;
  for (size_t i = 0; i < std::size(stored); ++i)
    for (const auto& [a, b] : {std::pair(expected[i], stored[i]), {stored[i], expected[i]}}) {
      TW_TRY(const int64_t differing,
             connection.integer(fmt::format(
                 "SELECT count(*) FROM (SELECT * FROM ({}) AS a EXCEPT SELECT * FROM ({}) AS b) "
                 "AS differing",
                 a, b)));
      wrong += differing;
    }
  return wrong;
}

}  // namespace tw::db
