// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: groups of comparable trials, the sessions that measured them, and derived tables
// that the rule of the best one reads (ranking.h). All of these follow from the trials: a writer's
// transaction brings up to date what its trials change, so that no commit reads the other trials of
// a group. docs/database_format.md lists the tables.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/record.h"
#include "db/tables/rows.h"

namespace tw::db {

struct Key;

/// The key of a group: all of its trials agree in it.
struct GroupKey {
  std::string workload_hash;  ///< hex
  std::string target;
  int64_t threads = 0;
  int64_t codegen_abi = 0;
  std::string device;
  std::string layouts;
  auto operator<=>(const GroupKey&) const = default;
};

GroupKey group_key_of(const Record& record);
/// That of the records at a place.
GroupKey group_key_at(const Key& place);

/// 32 bytes that name a group: an index over its texts would be ten times as large, and an index of
/// PostgreSQL holds no long texts.
std::string group_digest(const GroupKey& key);

/// A row of the table `groups`.
struct Group {
  int64_t id = 0;
  GroupKey key;
  int64_t trials = 0;  ///< their number
};

/// Tables and indexes of groups and sessions with the SQL that creates them.
std::vector<std::pair<std::string, std::string>> group_objects(const Dialect& dialect);

/// "CREATE INDEX groups_last ...": the order in which groups are listed. In a file the index has
/// all that for_each_group() reads, a quarter of the bytes of the rows.
std::string create_groups_last_sql(const Dialect& dialect);

/// Visits every group, some of them at a time, in an order that is the same in every database.
Status each_group(Connection& connection, const std::function<Status(const Group&)>& visit);

/// The groups of a workload, given by the hash of its key in hex, with these layouts, sorted.
Result<std::vector<Group>> groups_of(Connection& connection, const std::string& workload_hash,
                                     const std::string& layouts);

/// The group with this key; nullopt where no trial belongs to it.
Result<std::optional<Group>> find_group(Connection& connection, const GroupKey& key);

/// Finds, or adds, the groups and the sessions of records that are about to be inserted.
class Memberships {
 public:
  explicit Memberships(Connection& connection) : connection_(connection) {}
  Result<Membership> of(const Record& record);

 private:
  /// A row of the table `sessions`.
  struct Session {
    int64_t id;
    std::string host, toolchain;  ///< empty: there may be several
    bool is_new = false;
  };
  struct KnownGroup {
    int64_t id;
    bool is_new;
  };
  Result<KnownGroup> group_of(const Record& record);
  Result<Session*> session_of(const KnownGroup& group, const Record& record);
  /// Empties a column of a session whose records have several values, and what is known of it.
  Status note_several(const Session& session, std::string_view column, std::string& known,
                      const std::string& value);

  Connection& connection_;
  std::map<GroupKey, KnownGroup> groups_;
  std::map<std::pair<int64_t, std::string>, Session> sessions_;
};

/// The part of a group whose comparison of sessions may change with trials that were inserted.
struct GroupChange {
  int64_t group = 0;
  bool is_new = false;           ///< the trials are all that the group has
  bool is_compared = false;      ///< so many sessions have trials of it that they are compared
  std::set<std::string> shared;  ///< schedules of the trials that at least three sessions share
  std::set<int64_t> timed;       ///< sessions of trials that count as timed
};

/// Counts the trials that are being inserted, for the tables of groups and sessions.
class TrialCounts {
 public:
  /// `seq` is the number of the row, larger than those before.
  void add(const Record& record, const Membership& membership, int64_t seq);
  /// Brings the tables up to date. Requires: the trials are stored, in a transaction that writes.
  Status store(Connection& connection);
  /// One for each group of the trials. Requires: store() was called.
  std::vector<GroupChange> changes() const;

 private:
  struct OfGroup {
    bool is_new = false, is_compared = false;
    int64_t trials = 0, last = 0, newest_ms = 0;
    std::set<std::string> schedules, shared;
    std::set<int64_t> sessions, timed;
  };
  struct OfSession {
    bool is_new = false;
    double least_cost = 0;
    std::map<double, int64_t> peaks;  ///< number of trials at each
  };
  Status store_groups(Connection& connection) const;
  Status store_sessions(Connection& connection) const;
  Status store_statuses(Connection& connection) const;
  Status find_shared(Connection& connection);

  std::map<int64_t, OfGroup> groups_;
  std::map<int64_t, OfSession> sessions_;
  std::map<std::string_view, int64_t> statuses_;
  std::set<int64_t> accusers_;  ///< sessions of trials that prove a schedule wrong
};

/// Counts the trials of a group anew: it has lost some, or somebody changed what was counted.
Status recount_group(Connection& connection, int64_t group);

/// Counts the trials of each status anew.
Status recount_statuses(Connection& connection);

/// The number of rows that say something else than the trials do.
Result<int64_t> count_wrong_counts(Connection& connection);

}  // namespace tw::db
