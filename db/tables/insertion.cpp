// SPDX-License-Identifier: Apache-2.0
#include "db/tables/insertion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "db/tables/best.h"
#include "db/tables/groups.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

// Smallest number of records to insert by a copy, because a copy needs two more statements.
constexpr size_t least_copied = 32;
// Number of hashes that one statement asks for, if there are at least this many records. Each
// statement is a round trip to the server.
constexpr size_t many_asked = 512;

// A row of `claims` stores the highest number that a row of trials has had, in the column
// `expires_ms`, because schema version 5 has no table for it. Other statements find claims by a
// digest of 32 bytes, so they neither read nor delete this row.
constexpr std::string_view numbers_place = "trials", numbers_schedule = "seq";

/// Returns the highest number that a row of trials has or, if rows were deleted, had before; 0 if
/// there never was a row.
Result<int64_t> highest_number(Connection& connection) {
  TW_TRY(Statement select,
         Statement::prepare(connection,
                            "SELECT coalesce(max(number), 0) FROM (SELECT max(seq) AS number FROM "
                            "trials UNION ALL SELECT expires_ms FROM claims WHERE place = ? AND "
                            "schedule = ?) AS numbers"));
  int64_t number = 0;
  select.bind_blob(numbers_place).bind_blob(numbers_schedule);
  TW_RETURN_IF_ERROR(select.one([&](const Row& row) { number = row.integer(0); }));
  return number;
}

/// Adds records to the table of trials. The transaction keeps other writers out, so new rows can be
/// numbered consecutively.
class TrialInsertion {
 public:
  /// The first new row gets the number `last` + 1.
  TrialInsertion(Connection& connection, int64_t last)
      : connection_(connection), memberships_(connection), last_(last) {}

  Status insert(std::span<const Record> records) {
    return connection_.dialect().has_copy && records.size() >= least_copied ? copy(records)
                                                                            : insert_each(records);
  }

  int64_t inserted() const { return inserted_; }

  /// Updates everything that is derived from the trials.
  Status derive() {
    TW_RETURN_IF_ERROR(counts_.store(connection_));
    for (const GroupChange& change : counts_.changes()) TW_RETURN_IF_ERROR(derive(change));
    return {};
  }

 private:
  Status insert_each(std::span<const Record> records) {
    TW_TRY(Statement insert, Statement::prepare(connection_, insert_trial_sql()));
    for (const Record& record : records) {
      TW_TRY(const Membership membership, memberships_.of(record));
      bind_record(insert, last_ + 1, record, membership);
      TW_RETURN_IF_ERROR(insert.run());
      if (connection_.changes() == 1) count(record, membership);
    }
    return {};
  }

  Status copy(std::span<const Record> records) {
    TW_TRY(std::set<std::string> there, hashes_there(records));
    std::vector<std::pair<const Record*, Membership>> added;
    for (const Record& record : records) {
      if (!there.insert(record.hash).second) continue;
      TW_TRY(const Membership membership, memberships_.of(record));
      added.emplace_back(&record, membership);
    }
    // The server stores rows while further rows are prepared here. Until the copy has ended, it
    // accepts no other statement.
    TW_TRY(Statement rows, Statement::prepare_copy(connection_, "trials", record_columns()));
    for (const auto& [record, membership] : added) {
      bind_record(rows, last_ + 1, *record, membership);
      count(*record, membership);
    }
    return rows.run();
  }

  /// Returns the hashes of those records that are in the table already. The statement has a scalar
  /// subquery for each hash, which uses the index. With a list of hashes (IN), a server that
  /// planned the statement when the table was empty would scan the whole table.
  Result<std::set<std::string>> hashes_there(std::span<const Record> records) {
    const std::string mark = fmt::format("(CAST(? AS {}))", connection_.dialect().blob);
    const size_t together = records.size() < many_asked ? least_copied : many_asked;
    const std::vector<std::string_view> marks(together, mark);
    TW_TRY(Statement select,
           Statement::prepare(connection_,
                              fmt::format("SELECT (SELECT hash FROM trials WHERE trials.hash = "
                                          "asked.hash) FROM (VALUES {}) AS asked(hash)",
                                          fmt::join(marks, ", "))));
    std::set<std::string> there;
    for (size_t begin = 0; begin < records.size(); begin += together) {
      // All statements have the same number of hashes, so the last one may repeat hashes of the one
      // before.
      const size_t first = std::min(begin, records.size() - together);
      for (const Record& record : records.subspan(first, together))
        select.bind_blob(bytes_of_hex(record.hash));
      TW_RETURN_IF_ERROR(select.each([&](const Row& row) {
        if (!row.blob(0).empty()) there.insert(hex_of_bytes(row.blob(0)));
        return true;
      }));
    }
    return there;
  }

  void count(const Record& record, const Membership& membership) {
    ++inserted_;
    counts_.add(record, membership, ++last_);
    if (membership.is_new_group)
      of_new_groups_[membership.group].push_back(ranked_trial_of_row(record, last_));
  }

  /// Updates all rows that are derived from the trials of a group. If the group is new, all its
  /// trials are in memory, which saves some ten requests to a server.
  Status derive(const GroupChange& change) {
    if (change.is_new && !change.is_compared)
      return derive_new_group(connection_, change.group, of_new_groups_[change.group]);
    TW_RETURN_IF_ERROR(compare_sessions(connection_, change));
    return refresh_best(connection_, change.group);
  }

  Connection& connection_;
  Memberships memberships_;
  TrialCounts counts_;
  /// The inserted trials of new groups, by id of the group.
  std::map<int64_t, std::vector<RankedTrial>> of_new_groups_;
  int64_t last_;  ///< the number of the row that was stored last
  int64_t inserted_ = 0;
};

}  // namespace

Result<int64_t> insert_records(Connection& connection, std::span<const Record> records) {
  if (records.empty()) return 0;
  TW_TRY(const int64_t last, highest_number(connection));
  return insert_records_after(connection, last, records);
}

Result<int64_t> insert_records_after(Connection& connection, int64_t last,
                                     std::span<const Record> records) {
  TrialInsertion insertion(connection, last);
  TW_RETURN_IF_ERROR(insertion.insert(records));
  TW_RETURN_IF_ERROR(insertion.derive());
  return insertion.inserted();
}

Status keep_highest_number(Connection& connection) {
  TW_TRY(const int64_t number, highest_number(connection));
  TW_TRY(Statement keep,
         Statement::prepare(connection,
                            "INSERT INTO claims(place, schedule, session, expires_ms) VALUES(?, ?, "
                            "'', ?) ON CONFLICT(place, schedule) DO UPDATE SET expires_ms = "
                            "excluded.expires_ms"));
  return keep.bind_blob(numbers_place).bind_blob(numbers_schedule).bind(number).run();
}

}  // namespace tw::db
