// SPDX-License-Identifier: Apache-2.0
// Implements claim(), release() and news() (claims.h).

#include "db/claims.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>

#include "db/server_address.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/demand_tables.h"
#include "db/tables/groups.h"

namespace tw::db {
namespace {

/// Claims schedules for one place (the group of a key) and one session.
class Claiming {
 public:
  Claiming(Connection& connection, const Key& place, const std::string& session,
           const std::string& host)
      : connection_(connection),
        place_(group_key_at(place)),
        digest_(group_digest(place_)),
        session_(session),
        host_(host) {}

  /// Deletes expired claims, and extends the claims of this session.
  Status renew() {
    TW_TRY(now_ms_, connection_.integer(fmt::format("SELECT {}", connection_.dialect().now_ms)));
    TW_TRY(
        Statement expire,
        Statement::prepare(connection_, "DELETE FROM claims WHERE place = ? AND expires_ms < ?"));
    TW_RETURN_IF_ERROR(expire.bind_blob(digest_).bind(now_ms_).run());
    TW_TRY(Statement renew,
           Statement::prepare(connection_,
                              "UPDATE claims SET expires_ms = ? WHERE place = ? AND session = ?"));
    renew.bind(expires_ms()).bind_blob(digest_).bind(std::string_view(session_));
    TW_RETURN_IF_ERROR(renew.run());
    TW_TRY(group_, find_group(connection_, place_));
    return {};
  }

  /// Requires: renew() was called in this transaction.
  Result<bool> claim(const std::string& schedule) {
    TW_TRY(const bool is_tried, is_settled(schedule));
    if (is_tried) return false;
    TW_TRY(Statement claim,
           Statement::prepare(
               connection_,
               "INSERT INTO claims(place, schedule, session, expires_ms) VALUES(?, ?, ?, ?) ON "
               "CONFLICT(place, schedule) DO UPDATE SET expires_ms = excluded.expires_ms WHERE "
               "claims.session = excluded.session"));
    claim.bind_blob(digest_).bind_blob(schedule).bind(std::string_view(session_));
    TW_RETURN_IF_ERROR(claim.bind(expires_ms()).run());
    return connection_.changes() > 0;
  }

 private:
  int64_t expires_ms() const { return now_ms_ + static_cast<int64_t>(claim_s * 1e3); }

  /// True if trials of other sessions have settled the schedule (TriedSchedules). One of these is
  /// enough: a trial whose status proves something else than a wrong schedule, such as Ok; a trial
  /// on this host that proves the schedule wrong; trials of two sessions that prove it wrong.
  Result<bool> is_settled(const std::string& schedule) {
    if (!group_) return false;
    TW_TRY(Statement select,
           Statement::prepare(connection_,
                              "SELECT DISTINCT t.status, s.session, s.host FROM trials t JOIN "
                              "sessions s ON s.id = t.session_id WHERE t.group_id = ? AND "
                              "t.schedule = ? AND s.session <> ?"));
    select.bind(group_->id).bind_blob(schedule).bind(std::string_view(session_));
    bool settled = false;
    std::set<std::string> accusers;
    TW_RETURN_IF_ERROR(select.each([&](const Row& row) {
      const std::optional<TrialStatus> status = parse_trial_status(row.text(0));
      if (!status || proves_nothing(*status)) return true;
      settled = settled || !proves_wrong(*status) || row.text(2) == host_;
      if (proves_wrong(*status)) accusers.insert(row.text(1));
      return true;
    }));
    return settled || accusers.size() > 1;
  }

  Connection& connection_;
  GroupKey place_;
  std::string digest_;
  const std::string &session_, &host_;
  std::optional<Group> group_;
  int64_t now_ms_ = 0;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> claim_objects(const Dialect& d) {
  return {
      {"claims",
       fmt::format("CREATE TABLE claims(place {0} NOT NULL, schedule {0} NOT NULL, session {1} NOT "
                   "NULL, expires_ms {2} NOT NULL, PRIMARY KEY(place, schedule)){3}",
                   d.blob, d.text, d.integer, d.keyed_table_end)},
  };
}

bool Store::is_shared() const { return is_server(path()) && may_write(); }

Result<std::vector<bool>> claim(Store& store, const Key& place,
                                std::span<const std::string> schedules, const std::string& session,
                                const std::string& host) {
  std::vector<bool> granted;
  const Status claimed = store.state().write([&]() -> Status {
    Claiming claiming(store.state().connection, place, session, host);
    TW_RETURN_IF_ERROR(claiming.renew());
    for (const std::string& schedule : schedules) {
      TW_TRY(const bool is_granted, claiming.claim(schedule));
      granted.push_back(is_granted);
    }
    return {};
  });
  if (!claimed) return tl::unexpected(claimed.error());
  return granted;
}

Result<bool> is_claimed(Store& store, const Key& place, const std::string& schedule,
                        const std::string& session) {
  TW_TRY(Statement select,
         Statement::prepare(
             store.state().connection,
             fmt::format("SELECT expires_ms FROM claims WHERE place = ? AND schedule = ? AND "
                         "session <> ? AND expires_ms >= {}",
                         store.state().connection.dialect().now_ms)));
  select.bind_blob(group_digest(group_key_at(place))).bind_blob(schedule);
  return select.bind(std::string_view(session)).one([](const Row&) {});
}

Status release(Store& store, const Key& place, const std::string& session) {
  return store.state().write([&]() -> Status {
    TW_TRY(Statement drop,
           Statement::prepare(store.state().connection,
                              "DELETE FROM claims WHERE place = ? AND session = ?"));
    return drop.bind_blob(group_digest(group_key_at(place))).bind(std::string_view(session)).run();
  });
}

Result<int64_t> last_row(Store& store) {
  return store.state().connection.integer("SELECT coalesce(max(seq), 0) FROM trials");
}

Result<News> news(Store& store, const Key& place, int64_t after, const std::string& session) {
  News news{{}, after};
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  TW_TRY(const std::optional<Group> group,
         find_group(store.state().connection, group_key_at(place)));
  if (!group) return news;
  TW_TRY(
      Statement select,
      Statement::prepare(store.state().connection,
                         "SELECT t.seq FROM trials t JOIN sessions s ON s.id = t.session_id "
                         "WHERE t.group_id = ? AND t.seq > ? AND s.session <> ? ORDER BY t.seq"));
  std::vector<int64_t> rows;
  select.bind(group->id).bind(after).bind(std::string_view(session));
  TW_RETURN_IF_ERROR(select.each([&](const Row& row) {
    rows.push_back(row.integer(0));
    return true;
  }));
  TW_TRY(std::vector<StoredRecord> stored, store.state().read(rows));
  news.records = records_of(std::move(stored));
  if (!rows.empty()) news.last = rows.back();
  return news;
}

}  // namespace tw::db
