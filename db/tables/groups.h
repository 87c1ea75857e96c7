// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the tables of groups and sessions, and further tables that the rule of the best
// trial (ranking.h) reads. A group has the comparable trials of one workload. A session is a run
// that measured trials of a group. All rows are derived from the trials. A transaction that stores
// trials updates only the rows that the new trials change. So storing does not read all other
// trials of a group. docs/database_format.md lists the tables.

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

/// The key of a group. All trials of a group have the same key.
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
/// Returns the key of the group whose records agree with all members of `place`.
GroupKey group_key_at(const Key& place);

/// Returns 32 bytes that identify a group in indexes. An index over the texts of the key would be
/// ten times as large, and indexes of PostgreSQL cannot hold long texts.
std::string group_digest(const GroupKey& key);

/// A row of the table `groups`.
struct Group {
  int64_t id = 0;
  GroupKey key;
  int64_t trials = 0;  ///< number of trials in the group
};

/// Returns the names of the tables and indexes of groups and sessions, each with the SQL that
/// creates the table or index.
std::vector<std::pair<std::string, std::string>> group_objects(const Dialect& dialect);

/// Returns the SQL "CREATE INDEX groups_last ..." of the index by which groups are listed. In a
/// file this index has all columns that for_each_group() reads, and a quarter of the bytes of the
/// rows.
std::string create_groups_last_sql(const Dialect& dialect);

/// Visits every group, sorted by group_digest(), which is the same order in all databases. At most
/// 256 groups are in memory at a time. Stops at the first error of `visit` and returns this error.
Status each_group(Connection& connection, const std::function<Status(const Group&)>& visit);

/// Returns the groups of a workload, given by the hash of its key (hex), with the given layouts,
/// sorted by key.
Result<std::vector<Group>> groups_of(Connection& connection, const std::string& workload_hash,
                                     const std::string& layouts);

/// Returns the group with this key; nullopt if no trial has the key.
Result<std::optional<Group>> find_group(Connection& connection, const GroupKey& key);

/// Finds the rows of records in the tables of groups and sessions, before the records are inserted.
/// Adds rows that are missing.
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
  /// Compares `value`, the host or toolchain of a record, with `known`, the value of its session so
  /// far. If they differ, the session has several values. Then `known` and the value in column
  /// `column` are emptied.
  Status note_several(const Session& session, std::string_view column, std::string& known,
                      const std::string& value);

  Connection& connection_;
  std::map<GroupKey, KnownGroup> groups_;
  std::map<std::pair<int64_t, std::string>, Session> sessions_;
};

/// The effect of inserted trials on a group. It says which sessions have to be compared again.
struct GroupChange {
  int64_t group = 0;
  bool is_new = false;       ///< true if the inserted trials are all trials of the group
  bool is_compared = false;  ///< true if the group has enough sessions for comparing them
  /// Schedules of the inserted trials that at least three sessions have tried.
  std::set<std::string> shared;
  /// Ids of the sessions that have inserted trials with a cost (cost_of()).
  std::set<int64_t> timed;
};

/// Counts the trials that a transaction inserts, and adds the counts to the tables of groups and
/// sessions.
class TrialCounts {
 public:
  /// Counts a record. `seq` is the number of its row. Requires: `seq` grows from call to call.
  void add(const Record& record, const Membership& membership, int64_t seq);
  /// Adds the counts to the tables. Requires: the trials are stored; a write transaction.
  Status store(Connection& connection);
  /// Returns one GroupChange for each group of the counted trials. Requires: store() was called.
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
    std::map<double, int64_t> peaks;  ///< peak -> number of trials
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

/// Counts the trials of a group anew and stores the counts. Call this function after trials were
/// deleted, or if another program may have changed the counts.
Status recount_group(Connection& connection, int64_t group);

/// Counts the trials of each status anew and stores the counts.
Status recount_statuses(Connection& connection);

/// Returns the number of rows in the tables of counts that do not agree with the trials.
Result<int64_t> count_wrong_counts(Connection& connection);

}  // namespace tw::db
